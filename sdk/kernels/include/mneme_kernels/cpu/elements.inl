// Rows of stored elements to and from the type that the sums are in. Own conversions of the 16-bit
// types: the SDK's are inline functions, of which the linker keeps one copy for all instruction
// sets.
#pragma once

#include "mneme_kernels/cpu/simd.inl"

namespace mneme {
inline namespace sdk_0_1 {
namespace cpu {
namespace {

struct BF16 {
  uint16_t bits;
};
struct F16 {
  uint16_t bits;
};

MNEME_INLINE uint32_t bits_of(float value) {
  uint32_t bits = 0;
  __builtin_memcpy(&bits, &value, sizeof(bits));
  return bits;
}
MNEME_INLINE float float_of(uint32_t bits) {
  float value = 0.0F;
  __builtin_memcpy(&value, &bits, sizeof(value));
  return value;
}

MNEME_INLINE float widen(float value) { return value; }
MNEME_INLINE double widen(double value) { return value; }
MNEME_INLINE float widen(BF16 value) { return float_of(static_cast<uint32_t>(value.bits) << 16); }
// The exponent's offset differs by 112; multiplying brings subnormals along.
MNEME_INLINE float widen(F16 value) {
  const uint32_t magnitude = (value.bits & 0x7FFFU) << 13;
  const bool is_finite = magnitude < 0x0F800000U;
  const uint32_t bits =
      is_finite ? bits_of(float_of(magnitude) * 0x1p112F) : magnitude | 0x7F800000U;
  return float_of(bits | (value.bits & 0x8000U) << 16);
}

MNEME_INLINE void narrow(float value, float& to) { to = value; }
MNEME_INLINE void narrow(double value, double& to) { to = value; }
// To nearest, ties to even; a NaN stays one though its low bits go.
MNEME_INLINE void narrow(float value, BF16& to) {
  const uint32_t bits = bits_of(value);
  const bool is_nan = (bits & 0x7FFFFFFFU) > 0x7F800000U;
  const uint32_t rounded = bits + 0x7FFFU + ((bits >> 16) & 1U);
  to.bits = static_cast<uint16_t>((is_nan ? bits | 0x00400000U : rounded) >> 16);
}
MNEME_INLINE void narrow(float value, F16& to) {
  const uint32_t bits = bits_of(value);
  const uint32_t magnitude = bits & 0x7FFFFFFFU;
  uint32_t half = 0x7E00U;  // NaN
  if (magnitude < 0x38800000U) {
    // Below the smallest normal number 2^-14: a unit of 1/2's last place is that of a subnormal.
    half = bits_of(float_of(magnitude) + 0.5F) - 0x3F000000U;
  } else if (magnitude < 0x477FF000U) {
    half = (magnitude - 0x38000000U + 0xFFFU + ((magnitude >> 13) & 1U)) >> 13;
  } else if (magnitude <= 0x7F800000U) {
    half = 0x7C00U;  // 65520 and more round to infinity
  }
  to.bits = static_cast<uint16_t>(half | (bits >> 16 & 0x8000U));
}

// `to` has room for `padded` elements; those beyond `count` become zeros.
template <typename E, typename T>
MNEME_INLINE void read_row(const E* from, int64_t count, int64_t padded, T* to) {
  for (int64_t i = 0; i < count; ++i) to[i] = widen(from[i]);
  for (int64_t i = count; i < padded; ++i) to[i] = T{0};
}
template <typename E, typename T>
MNEME_INLINE void write_row(const T* from, int64_t count, E* to) {
  for (int64_t i = 0; i < count; ++i) narrow(from[i], to[i]);
}
MNEME_INLINE void read_row(const float* from, int64_t count, int64_t padded, float* to) {
  if (count > 0) __builtin_memcpy(to, from, static_cast<uint64_t>(count) * sizeof(float));
  for (int64_t i = count; i < padded; ++i) to[i] = 0.0F;
}
MNEME_INLINE void write_row(const float* from, int64_t count, float* to) {
  if (count > 0) __builtin_memcpy(to, from, static_cast<uint64_t>(count) * sizeof(float));
}

}  // namespace
}  // namespace cpu
}  // namespace sdk_0_1
}  // namespace mneme
