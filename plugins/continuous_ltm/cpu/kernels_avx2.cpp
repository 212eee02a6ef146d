// The kernels for AVX2 with FMA. Everything included before the choice of instructions is for any
// processor.
#include "cpu/kernel_table.hpp"

#if defined(__x86_64__)
#define MNEME_VECTOR_BYTES 32
#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#else
#pragma GCC target("avx2,fma")
#endif

#include "cpu/kernel_table.inl"

namespace continuous_ltm::cpu {
const KernelTable kAvx2Kernels = make_table("avx2");
}  // namespace continuous_ltm::cpu

#ifdef __clang__
#pragma clang attribute pop
#endif
#endif
