// How the inner functions of kernels are compiled.
#pragma once

#define MNEME_INLINE inline __attribute__((always_inline))
// Loops over registers have to disappear at -O2 as well.
#ifdef __clang__
#define MNEME_UNROLL _Pragma("unroll")
#else
#define MNEME_UNROLL _Pragma("GCC unroll 24")
#endif
