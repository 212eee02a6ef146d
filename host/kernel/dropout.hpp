// Which entries of a tensor dropout keeps.
#pragma once

#include <cstdint>

#include "host/base/philox.hpp"

namespace mneme::kernel {

// Names a stream of random words (StreamKey of host/base/random.hpp).
struct MaskStream {
  std::uint64_t low = 0;
  std::uint64_t high = 0;
};

// Entry i of a tensor is kept, and multiplied by `factor`, where word first + i of the stream is at
// most last_kept; else it becomes 0.
struct Dropout {
  bool is_on = false;  // off: all entries stay as they are
  MaskStream stream;
  std::uint64_t first = 0;
  std::uint32_t last_kept = 0;
  double factor = 1.0;
  // In the memory of the kernel, which reads it when it runs; null = it is `stream`.
  const MaskStream* stored = nullptr;
};

MNEME_HOST_AND_DEVICE inline MaskStream mask_stream(const Dropout& d) {
  return d.stored != nullptr ? *d.stored : d.stream;
}

// Of probabilities [H,B,T,K], those of some lanes of a batch: the first of head h is entry
// h * head of `mask`.
struct ProbabilityDropout {
  Dropout mask;
  std::int64_t head = 0;
};

}  // namespace mneme::kernel
