// What softmaxes are made of. Scores are exponents of 2: the factor log2(e) goes into the queries.
#pragma once

#include "mneme_kernels/cpu/simd.inl"

namespace mneme {
inline namespace sdk_0_1 {
namespace cpu {
namespace {

template <typename T>
constexpr T kLog2E = static_cast<T>(1.4426950408889634074);
template <typename T>
constexpr T kLn2 = static_cast<T>(0.69314718055994530942);

// 0 below the smallest normal number's exponent, so for -infinity; a NaN stays.
template <typename T>
MNEME_INLINE Vec<T> power(Vec<T> exponent) {
  const Vec<T> lowest = splat(SimdTypes<T>::kLowestExponent);
  const Vec<T> value = exp2(at_least<T>(exponent, lowest));
  return exponent < lowest ? Vec<T>{} : value;
}
#ifdef MNEME_USE_AVX512
template <>
MNEME_INLINE Vec<float> power<float>(Vec<float> exponent) {
  const __mmask16 is_normal = _mm512_cmp_ps_mask(exponent, splat(SimdTypes<float>::kLowestExponent),
                                                 _CMP_NLT_UQ);  // so is a NaN
  const Vec<float> whole = _mm512_mask_roundscale_ps(exponent, 0xFFFF, exponent, 0);
  return _mm512_maskz_scalef_ps(is_normal, exp2_fraction(exponent - whole), whole);
}
#endif

MNEME_INLINE float logarithm(float x) { return __builtin_logf(x); }
MNEME_INLINE double logarithm(double x) { return __builtin_log(x); }

template <typename T>
struct Parts {
  typedef T Half __attribute__((vector_size(32)));
  typedef T Quarter __attribute__((vector_size(16)));
};
template <typename T>
using Half = typename Parts<T>::Half;
template <typename T>
using Quarter = typename Parts<T>::Quarter;

// Halves of a vector, as often as it takes: combine(lower half, upper half).
template <typename Combine>
MNEME_INLINE float fold(const Combine& combine, Quarter<float> v) {
  v = combine(v, __builtin_shufflevector(v, v, 2, 3, 2, 3));
  return combine(v, __builtin_shufflevector(v, v, 1, 1, 1, 1))[0];
}
template <typename Combine>
MNEME_INLINE double fold(const Combine& combine, Quarter<double> v) {
  return combine(v, __builtin_shufflevector(v, v, 1, 1))[0];
}
#if MNEME_VECTOR_BYTES >= 32
template <typename Combine>
MNEME_INLINE float fold(const Combine& combine, Half<float> v) {
  return fold(combine, combine(__builtin_shufflevector(v, v, 0, 1, 2, 3),
                               __builtin_shufflevector(v, v, 4, 5, 6, 7)));
}
template <typename Combine>
MNEME_INLINE double fold(const Combine& combine, Half<double> v) {
  return fold(combine,
              combine(__builtin_shufflevector(v, v, 0, 1), __builtin_shufflevector(v, v, 2, 3)));
}
#endif
#if MNEME_VECTOR_BYTES >= 64
template <typename Combine>
MNEME_INLINE float fold(const Combine& combine, Vec<float> v) {
  return fold(combine, combine(__builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7),
                               __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15)));
}
template <typename Combine>
MNEME_INLINE double fold(const Combine& combine, Vec<double> v) {
  return fold(combine, combine(__builtin_shufflevector(v, v, 0, 1, 2, 3),
                               __builtin_shufflevector(v, v, 4, 5, 6, 7)));
}
#endif

struct Add {
  template <typename V>
  MNEME_INLINE V operator()(V a, V b) const {
    return a + b;
  }
};
struct Larger {  // of two, the first unless the second is larger
  template <typename V>
  MNEME_INLINE V operator()(V a, V b) const {
    return a < b ? b : a;
  }
};

template <typename T>
MNEME_INLINE T sum_of(Vec<T> values) {
  return fold(Add(), values);
}
template <typename T>
MNEME_INLINE T largest_of(Vec<T> values) {
  return fold(Larger(), values);
}

}  // namespace
}  // namespace cpu
}  // namespace sdk_0_1
}  // namespace mneme
