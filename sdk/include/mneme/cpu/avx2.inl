// What follows in this file is compiled for AVX2 with FMA. Headers that are for any processor come
// before; target_end.inl ends it.
#define MNEME_VECTOR_BYTES 32
#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma")
#endif
