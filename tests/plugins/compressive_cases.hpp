// What the kernel tests of the Compressive Transformer share.
#pragma once

#include <string>
#include <vector>

#include "plugins/compressive/cpu/kernel_table.hpp"
#include "plugins/compressive/reference/kernels.hpp"
#include "tests/plugins/kernel_compare.hpp"
#include "tests/plugins/kernel_run.hpp"

namespace mneme::test {

namespace reference = compressive::reference;

// The CPU's instruction sets that this machine has, or one null for CUDA.
inline std::vector<const compressive::cpu::KernelTable*> tables_on(Device device) {
  if (device == Device::kCuda) return {nullptr};
  return compressive::cpu::kernel_tables();
}

inline std::string name_of(const compressive::cpu::KernelTable* table) {
  return table == nullptr ? "cuda" : table->name;
}

}  // namespace mneme::test
