#include "cpu/kernel_table.hpp"

#include "mneme/cpu/instruction_sets.hpp"

namespace lamemo::cpu {

const std::vector<const KernelTable*>& kernel_tables() {
#if defined(__x86_64__)
  static const auto tables =
      mneme::cpu::usable_tables(&kAvx512Kernels, &kAvx2Kernels, &kPortableKernels);
#else
  static const auto tables =
      mneme::cpu::usable_tables<KernelTable>(nullptr, nullptr, &kPortableKernels);
#endif
  return tables;
}

}  // namespace lamemo::cpu
