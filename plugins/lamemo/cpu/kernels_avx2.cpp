// The kernels for AVX2 with FMA.
#include "cpu/kernel_table.hpp"

#if defined(__x86_64__)
#include "mneme/cpu/avx2.inl"
// Compiled for what was just chosen:
#include "cpu/kernel_table.inl"

namespace lamemo::cpu {
const KernelTable kAvx2Kernels = make_table("avx2");
}  // namespace lamemo::cpu

#include "mneme/cpu/target_end.inl"
#endif
