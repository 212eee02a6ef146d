// Dropout masks as definitions draw them, word by word.
#pragma once

#include <cstdint>

#include "host/base/random.hpp"
#include "host/kernel/dropout.hpp"

namespace mneme::kernel {

inline bool is_kept(const Dropout& d, std::uint64_t entry) {
  const std::uint64_t word = d.first + entry;
  const MaskStream stream = mask_stream(d);
  return Random::block({.low = stream.low, .high = stream.high}, word / 4)[word % 4] <= d.last_kept;
}

inline double factor_of(const Dropout& d, std::int64_t entry) {
  if (!d.is_on) return 1.0;
  return is_kept(d, static_cast<std::uint64_t>(entry)) ? d.factor : 0.0;
}

}  // namespace mneme::kernel
