// bf16 and f16 as C++ types for CPU kernels: storage of 16 bits, arithmetic through float, rounding
// to nearest even.
#pragma once

#include <cstdint>
#include <cstring>

#include "mneme/plugin.h"

namespace mneme {
inline namespace sdk_0_1 {
namespace detail {

inline uint32_t float_bits(float value) noexcept {
  uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}
inline float float_of(uint32_t bits) noexcept {
  float value = 0.0F;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

}  // namespace detail

// The upper half of a float.
struct BFloat16 {
  BFloat16() = default;
  explicit BFloat16(float value) noexcept {
    const uint32_t source = detail::float_bits(value);
    if ((source & 0x7FFFFFFFU) > 0x7F800000U) {  // NaN stays NaN when the low bits are dropped
      bits = static_cast<uint16_t>((source >> 16) | 0x0040U);
    } else {
      bits = static_cast<uint16_t>((source + 0x7FFFU + ((source >> 16) & 1U)) >> 16);
    }
  }
  operator float() const noexcept {  // NOLINT: arithmetic is meant to be in float
    return detail::float_of(static_cast<uint32_t>(bits) << 16);
  }
  uint16_t bits;
};

// IEEE 754 binary16.
struct Float16 {
  Float16() = default;
  explicit Float16(float value) noexcept : bits(round(value)) {}
  operator float() const noexcept {  // NOLINT: arithmetic is meant to be in float
    const uint32_t sign = static_cast<uint32_t>(bits & 0x8000U) << 16;
    const uint32_t exponent = (bits >> 10) & 0x1FU;
    const uint32_t fraction = bits & 0x3FFU;
    if (exponent == 0x1FU) return detail::float_of(sign | 0x7F800000U | (fraction << 13));
    if (exponent != 0) return detail::float_of(sign | ((exponent + 112U) << 23) | (fraction << 13));
    const float magnitude = static_cast<float>(fraction) * 5.9604644775390625e-8F;  // 2^-24
    return sign != 0 ? -magnitude : magnitude;
  }
  uint16_t bits;

 private:
  static uint16_t round(float value) noexcept {
    const uint32_t source = detail::float_bits(value);
    const uint32_t sign = (source >> 16) & 0x8000U;
    const uint32_t magnitude = source & 0x7FFFFFFFU;
    if (magnitude > 0x7F800000U) return static_cast<uint16_t>(sign | 0x7E00U);
    if (magnitude >= 0x477FF000U) return static_cast<uint16_t>(sign | 0x7C00U);  // >= 65520
    if (magnitude <
        0x38800000U) {  // subnormal: adding 0.5 leaves the rounded fraction in the low bits
      const float shifted = detail::float_of(magnitude) + 0.5F;
      return static_cast<uint16_t>(sign | (detail::float_bits(shifted) - 0x3F000000U));
    }
    const uint32_t rounded = magnitude + 0xC8000FFFU + ((magnitude >> 13) & 1U);
    return static_cast<uint16_t>(sign | (rounded >> 13));
  }
};

}  // namespace sdk_0_1
}  // namespace mneme
