// Counter-based random numbers: Philox4x32-10 [Salmon et al. 2011] with keyed streams.
//
// A stream's numbers depend on its seed and key parts only, never on other streams, thread order or
// machine. Integers and uniforms are equal bit for bit everywhere; normals go through the C
// library's log, sqrt, cos and sin and may differ in the last bit between C libraries.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <numbers>
#include <span>
#include <string_view>
#include <utility>
#include <variant>

#include "host/base/philox.hpp"

namespace mneme {

using PhiloxCounter = std::array<std::uint32_t, 4>;
using PhiloxKey = std::array<std::uint32_t, 2>;

// One block of Philox4x32-10: four random words for a counter and a key.
[[nodiscard]] constexpr PhiloxCounter philox4x32_10(PhiloxCounter c, PhiloxKey k) {
  return philox_block(c, k);
}

// The finaliser of SplitMix64 [Steele et al. 2014]: a bijection that mixes all 64 bits.
[[nodiscard]] constexpr std::uint64_t mix64(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  return x ^ (x >> 31);
}

// A part of a stream's key: a number or a name.
using KeyPart = std::variant<std::uint64_t, std::string_view>;

// 128 bits that name a stream.
//
// Absorbing a 64-bit word w into each half: h = mix64(h + w * odd + golden), with another odd
// constant per half. A number absorbs 1, then itself; a name absorbs 2, its length, then its bytes
// in little-endian words (zero-padded). So ("ab", "c") and ("a", "bc") differ, as do 7 and "7".
struct StreamKey {
  std::uint64_t low = 0;
  std::uint64_t high = 0;

  [[nodiscard]] static constexpr StreamKey derive(std::uint64_t seed,
                                                  std::span<const KeyPart> parts) {
    StreamKey key;
    key.absorb(seed);
    for (const KeyPart& part : parts) {
      if (const auto* number = std::get_if<std::uint64_t>(&part)) {
        key.absorb(1);
        key.absorb(*number);
      } else {
        key.absorb_name(std::get<std::string_view>(part));
      }
    }
    return key;
  }

 private:
  constexpr void absorb(std::uint64_t word) {
    low = mix64(low + word * 0xD1342543DE82EF95 + 0x9E3779B97F4A7C15);
    high = mix64(high + word * 0xAEF17502108EF2D9 + 0x9E3779B97F4A7C15);
  }
  constexpr void absorb_name(std::string_view name) {
    absorb(2);
    absorb(name.size());
    for (std::size_t begin = 0; begin < name.size(); begin += 8) {
      std::uint64_t word = 0;
      for (std::size_t i = begin; i < name.size() && i < begin + 8; ++i) {
        word |= std::uint64_t{static_cast<unsigned char>(name[i])} << (8 * (i - begin));
      }
      absorb(word);
    }
  }
};

// A stream of random numbers. One thread at a time.
class Random {
 public:
  // The stream `parts` of `seed`: Random(seed, {"motif", lane, epoch}); numbers must be std::uint64_t.
  explicit Random(std::uint64_t seed, std::initializer_list<KeyPart> parts = {})
      : Random(StreamKey::derive(seed, {parts.begin(), parts.size()})) {}
  Random(std::uint64_t seed, std::span<const KeyPart> parts)
      : Random(StreamKey::derive(seed, parts)) {}
  explicit constexpr Random(StreamKey key) : key_(key) {}

  // Words 4 index .. 4 index + 3 of a stream.
  [[nodiscard]] static constexpr PhiloxCounter block(StreamKey key, std::uint64_t index) {
    return stream_block<PhiloxCounter, PhiloxKey>(key.low, key.high, index);
  }

  std::uint32_t next32() {
    if (position_ % 4 == 0) block_ = block(key_, position_ / 4);
    return block_[position_++ % 4];
  }
  std::uint64_t next64() {
    const std::uint64_t low = next32();
    return low | (std::uint64_t{next32()} << 32);
  }

  // Uniform in [0, 1), a multiple of 2^-53.
  double uniform() { return static_cast<double>(next64() >> 11) * 0x1p-53; }
  // Uniform in (0, 1), an odd multiple of 2^-53.
  double uniform_open() { return (static_cast<double>(next64() >> 12) + 0.5) * 0x1p-52; }

  // Standard normal by Box-Muller; uses two uniforms a number, so it keeps no hidden state.
  double normal() { return normal_pair().first; }
  // Two independent standard normals from the same two uniforms.
  std::pair<double, double> normal_pair() {
    const double radius = std::sqrt(-2.0 * std::log(uniform_open()));
    const double angle = 2.0 * std::numbers::pi * uniform();
    return {radius * std::cos(angle), radius * std::sin(angle)};
  }

  // Uniform in 0 .. n-1 without bias, by rejection; n = 0 gives 0.
  std::uint64_t below(std::uint64_t n) {
    if (n <= 1) return 0;
    const std::uint64_t reject_below = (0 - n) % n;  // 2^64 mod n
    std::uint64_t word = next64();
    while (word < reject_below) word = next64();
    return word % n;
  }
  // Uniform in low .. high, both included; low <= high.
  std::int64_t between(std::int64_t low, std::int64_t high) {
    const std::uint64_t span = static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low);
    const std::uint64_t offset = span == ~std::uint64_t{0} ? next64() : below(span + 1);
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(low) + offset);
  }

  // Fisher-Yates; every order equally likely.
  template <typename T>
  void shuffle(std::span<T> values) {
    for (std::size_t i = values.size(); i > 1; --i) {
      std::swap(values[i - 1], values[static_cast<std::size_t>(below(i))]);
    }
  }

 private:
  StreamKey key_;
  std::uint64_t position_ = 0;  // 32-bit words drawn so far
  PhiloxCounter block_{};
};

}  // namespace mneme
