// What follows in the including file, up to end.inl, is compiled for one instruction set: the one
// that mneme_add_plugin compiles the file for. Headers that are for any processor come before.
// Defines MNEME_VECTOR_BYTES, MNEME_INSTRUCTION_SET (portable, avx2 or avx512) and, for what the
// compilers' vector types cannot say, MNEME_USE_AVX512.
//
// The target is a pragma and no flag of the compiler: with -mavx2 an inline function of a header,
// of which the linker keeps one copy for the whole plugin, might be a copy that other processors
// cannot run. For the same reason everything in these .inl files and in the kernels has internal
// linkage, and they use no standard template.
#include <cstdint>

#include "mneme_kernels/cpu/arena.hpp"

#ifndef MNEME_VECTOR_BITS
#error "not compiled as one of CPU_KERNELS of mneme_add_plugin"
#endif

#if MNEME_VECTOR_BITS == 512
#include <immintrin.h>

#define MNEME_USE_AVX512
#define MNEME_INSTRUCTION_SET avx512
#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx512f,avx2,fma"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f,avx2,fma")
#endif
#elif MNEME_VECTOR_BITS == 256
#define MNEME_INSTRUCTION_SET avx2
#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma")
#endif
#else
#define MNEME_INSTRUCTION_SET portable
#endif
#define MNEME_VECTOR_BYTES (MNEME_VECTOR_BITS / 8)

// Compiled for what was just chosen:
#include "mneme_kernels/cpu/elements.inl"
#include "mneme_kernels/cpu/product.inl"
#include "mneme_kernels/cpu/simd.inl"
