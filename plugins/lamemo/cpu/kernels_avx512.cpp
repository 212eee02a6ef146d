// The kernels for AVX-512 F.
#include "cpu/kernel_table.hpp"

#if defined(__x86_64__)
#include "mneme/cpu/avx512.inl"
// Compiled for what was just chosen:
#include "cpu/kernel_table.inl"

namespace lamemo::cpu {
const KernelTable kAvx512Kernels = make_table("avx512");
}  // namespace lamemo::cpu

#include "mneme/cpu/target_end.inl"
#endif
