// Words of a dropout mask's stream, drawn by one thread.
#pragma once

#include <cstdint>
#include <type_traits>

#include "host/base/philox.hpp"
#include "host/kernel/dropout.hpp"

namespace mneme::kernel {

struct MaskWords {
  std::uint32_t at[4];
  MNEME_HOST_AND_DEVICE constexpr std::uint32_t& operator[](int i) { return at[i]; }
};
struct MaskKey {
  std::uint32_t at[2];
  MNEME_HOST_AND_DEVICE constexpr std::uint32_t& operator[](int i) { return at[i]; }
};

// Bit i: word `first` + i of the stream keeps its entry, for the `count` words from `first` on.
template <int count>
__device__ inline unsigned kept_words(const Dropout& d, std::uint64_t first) {
  static_assert(count % 4 == 0 && count <= 32);
  const MaskStream stream = mask_stream(d);
  const unsigned skipped = static_cast<unsigned>(first % 4);
  std::conditional_t<(count > 28), std::uint64_t, unsigned> bits = 0;
#pragma unroll
  for (int block = 0; block < count / 4 + 1; ++block) {
    if (block == count / 4 && skipped == 0) break;
    MaskWords words = stream_block<MaskWords, MaskKey>(stream.low, stream.high,
                                                       first / 4 + static_cast<unsigned>(block));
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      bits |= static_cast<decltype(bits)>(words[i] <= d.last_kept ? 1U : 0U) << (4 * block + i);
    }
  }
  return static_cast<unsigned>(bits >> skipped);
}

}  // namespace mneme::kernel
