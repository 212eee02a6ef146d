#include "cpu/kernel_table.hpp"

namespace continuous_ltm::cpu {

const std::vector<const KernelTable*>& kernel_tables() {
  static const std::vector<const KernelTable*> tables = [] {
    std::vector<const KernelTable*> usable;
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f")) usable.push_back(&kAvx512Kernels);
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
      usable.push_back(&kAvx2Kernels);
    }
#endif
    usable.push_back(&kPortableKernels);
    return usable;
  }();
  return tables;
}

}  // namespace continuous_ltm::cpu
