// The kernels for any processor, with vectors of 16 bytes.
#include "cpu/kernel_table.hpp"

#define MNEME_VECTOR_BYTES 16

#include "cpu/kernel_table.inl"

namespace continuous_ltm::cpu {
const KernelTable kPortableKernels = make_table("portable");
}  // namespace continuous_ltm::cpu
