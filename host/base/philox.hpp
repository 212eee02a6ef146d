// Philox4x32-10 [Salmon et al. 2011], in C++17 for host and device code. random.hpp has its streams.
#pragma once

#include <cstdint>

#ifdef __CUDACC__
#define MNEME_HOST_AND_DEVICE __host__ __device__
#else
#define MNEME_HOST_AND_DEVICE
#endif

namespace mneme {

// Four random words for a counter of four words and a key of two. The types are aggregates with an
// operator[]; device code cannot call that of std::array.
template <typename Counter, typename Key>
MNEME_HOST_AND_DEVICE constexpr Counter philox_block(Counter c, Key k) {
#ifdef __CUDACC__
#pragma unroll
#else
#pragma GCC unroll 10  // so that a loop around it can be vectorised
#endif
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{0xD2511F53} * c[0];
    const std::uint64_t p1 = std::uint64_t{0xCD9E8D57} * c[2];
    c = {static_cast<std::uint32_t>(p1 >> 32) ^ c[1] ^ k[0], static_cast<std::uint32_t>(p1),
         static_cast<std::uint32_t>(p0 >> 32) ^ c[3] ^ k[1], static_cast<std::uint32_t>(p0)};
    k[0] += 0x9E3779B9;
    k[1] += 0xBB67AE85;
  }
  return c;
}

// Words 4 index .. 4 index + 3 of the stream that `low` and `high` name (StreamKey).
template <typename Counter, typename Key>
MNEME_HOST_AND_DEVICE constexpr Counter stream_block(std::uint64_t low, std::uint64_t high,
                                                     std::uint64_t index) {
  return philox_block(
      Counter{static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(index >> 32),
              static_cast<std::uint32_t>(high), static_cast<std::uint32_t>(high >> 32)},
      Key{static_cast<std::uint32_t>(low), static_cast<std::uint32_t>(low >> 32)});
}

}  // namespace mneme
