// The kernels for any processor.
#include "cpu/kernel_table.hpp"
#include "mneme/cpu/portable.inl"
// Compiled for what was just chosen:
#include "cpu/kernel_table.inl"

namespace lamemo::cpu {
const KernelTable kPortableKernels = make_table("portable");
}  // namespace lamemo::cpu
