// Vectors of the instruction set that begin.inl chose: MNEME_VECTOR_BYTES long.
#pragma once

#include <cstdint>

#include "mneme_kernels/cpu/arena.hpp"

namespace mneme {
inline namespace sdk_0_1 {
namespace cpu {
namespace {

template <typename T>
struct SimdTypes;
template <>
struct SimdTypes<float> {
  typedef float Vec __attribute__((vector_size(MNEME_VECTOR_BYTES)));
  typedef int32_t Int __attribute__((vector_size(MNEME_VECTOR_BYTES)));
  typedef float Anywhere
      __attribute__((vector_size(MNEME_VECTOR_BYTES), aligned(sizeof(float)), may_alias));
  using Element = int32_t;
  static constexpr int kFractionBits = 23;
  static constexpr float kLowestExponent = -126.0F;
  static constexpr float kRounder = 12582912.0F;  // 1.5 * 2^23: adding it rounds to an integer
};
template <>
struct SimdTypes<double> {
  typedef double Vec __attribute__((vector_size(MNEME_VECTOR_BYTES)));
  typedef int64_t Int __attribute__((vector_size(MNEME_VECTOR_BYTES)));
  typedef double Anywhere
      __attribute__((vector_size(MNEME_VECTOR_BYTES), aligned(sizeof(double)), may_alias));
  using Element = int64_t;
  static constexpr int kFractionBits = 52;
  static constexpr double kLowestExponent = -1022.0;
  static constexpr double kRounder = 6755399441055744.0;  // 1.5 * 2^52
};

template <typename T>
using Vec = typename SimdTypes<T>::Vec;
template <typename T>
constexpr int64_t kLanes = MNEME_VECTOR_BYTES / static_cast<int64_t>(sizeof(T));

template <typename T>
MNEME_INLINE Vec<T> load(const T* from) {
  return *reinterpret_cast<const typename SimdTypes<T>::Anywhere*>(from);
}
template <typename T>
MNEME_INLINE void store(T* to, Vec<T> value) {
  *reinterpret_cast<typename SimdTypes<T>::Anywhere*>(to) = value;
}
template <typename T>
MNEME_INLINE Vec<T> splat(T value) {
  return value - Vec<T>{};
}

// A NaN in `x` stays.
template <typename T>
MNEME_INLINE Vec<T> at_least(Vec<T> x, Vec<T> bound) {
  return x < bound ? bound : x;
}

// b unless `a` is larger: a NaN in `a` is passed over.
template <typename T>
MNEME_INLINE Vec<T> larger_of(Vec<T> a, Vec<T> b) {
  return a > b ? a : b;
}
#ifdef MNEME_USE_AVX512
template <>
MNEME_INLINE Vec<float> larger_of<float>(Vec<float> a, Vec<float> b) {
  return _mm512_mask_max_ps(a, 0xFFFF, a, b);
}
#endif

MNEME_INLINE Vec<float> square_root(Vec<float> x) {
#ifdef MNEME_USE_AVX512
  return _mm512_mask_sqrt_ps(x, 0xFFFF, x);  // GCC 12 warns about the plain form
#else
  for (int64_t i = 0; i < kLanes<float>; ++i) x[i] = __builtin_sqrtf(x[i]);
  return x;
#endif
}
MNEME_INLINE Vec<double> square_root(Vec<double> x) {
#ifdef MNEME_USE_AVX512
  return _mm512_mask_sqrt_pd(x, 0xFF, x);
#else
  for (int64_t i = 0; i < kLanes<double>; ++i) x[i] = __builtin_sqrt(x[i]);
  return x;
#endif
}

// Near-minimax polynomials of 2^f on [-1/2, 1/2] (Chebyshev interpolation): relative error 2e-9 and
// 4e-20.
MNEME_INLINE Vec<float> exp2_fraction(Vec<float> f) {
  Vec<float> p = splat(0.000154614446986F);
  p = p * f + 0.00134004281776F;
  p = p * f + 0.00961805667852F;
  p = p * f + 0.0555032722667F;
  p = p * f + 0.240226509223F;
  p = p * f + 0.693147206703F;
  return p * f + 1.0F;
}
MNEME_INLINE Vec<double> exp2_fraction(Vec<double> f) {
  Vec<double> p = splat(2.5733568308756891235e-11);
  p = p * f + 4.4566753410492058782e-10;
  p = p * f + 7.0548943863483480445e-9;
  p = p * f + 1.017805119296064896e-7;
  p = p * f + 1.3215486815999976975e-6;
  p = p * f + 0.000015252733856293466416;
  p = p * f + 0.00015403530393362755291;
  p = p * f + 0.0013333558146390352775;
  p = p * f + 0.0096181291076284830543;
  p = p * f + 0.055504108664821698992;
  p = p * f + 0.24022650695910071228;
  p = p * f + 0.69314718055994530835;
  return p * f + 1.0;
}

#ifdef MNEME_USE_AVX512
MNEME_INLINE Vec<float> exp2(Vec<float> x) {
  const Vec<float> whole = _mm512_mask_roundscale_ps(x, 0xFFFF, x, 0);
  return _mm512_mask_scalef_ps(x, 0xFFFF, exp2_fraction(x - whole), whole);
}
MNEME_INLINE Vec<double> exp2(Vec<double> x) {
  const Vec<double> whole = _mm512_mask_roundscale_pd(x, 0xFF, x, 0);
  return _mm512_mask_scalef_pd(x, 0xFF, exp2_fraction(x - whole), whole);
}
#else
// 2^x for x <= 0, never below the smallest normal number. The sum with kRounder holds the integer
// part in its low bits, ready to be added to the exponent.
template <typename V, typename Types>
MNEME_INLINE V exp2_by_bits(V x) {
  using Int = typename Types::Int;
  x = x < Types::kLowestExponent ? V{} + Types::kLowestExponent : x;
  const V rounded = x + Types::kRounder;
  const V fraction = exp2_fraction(x - (rounded - Types::kRounder));
  const Int exponent = reinterpret_cast<Int>(rounded) << Types::kFractionBits;
  return reinterpret_cast<V>(reinterpret_cast<Int>(fraction) + exponent);
}
MNEME_INLINE Vec<float> exp2(Vec<float> x) {
  return exp2_by_bits<Vec<float>, SimdTypes<float> >(x);
}
MNEME_INLINE Vec<double> exp2(Vec<double> x) {
  return exp2_by_bits<Vec<double>, SimdTypes<double> >(x);
}
#endif

}  // namespace
}  // namespace cpu
}  // namespace sdk_0_1
}  // namespace mneme
