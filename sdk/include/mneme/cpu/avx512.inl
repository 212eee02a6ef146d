// What follows in this file is compiled for AVX-512 F. Headers that are for any processor come
// before; target_end.inl ends it.
#include <immintrin.h>

#define MNEME_VECTOR_BYTES 64
#define MNEME_USE_AVX512
#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx512f,avx2,fma"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f,avx2,fma")
#endif
