// The kernels for AVX-512 F. Everything included before the choice of instructions is for any
// processor.
#include "cpu/kernel_table.hpp"

#if defined(__x86_64__)
#include <immintrin.h>

#define MNEME_VECTOR_BYTES 64
#define MNEME_USE_AVX512
#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx512f,avx2,fma"))), apply_to = function)
#else
#pragma GCC target("avx512f,avx2,fma")
#endif

#include "cpu/kernel_table.inl"

namespace continuous_ltm::cpu {
const KernelTable kAvx512Kernels = make_table("avx512");
}  // namespace continuous_ltm::cpu

#ifdef __clang__
#pragma clang attribute pop
#endif
#endif
