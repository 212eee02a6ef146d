// Kernels are compiled once for each instruction set, in source files of their own:
//
//   #include "cpu/kernel_table.hpp"          declares KernelTable, functions and their contracts
//   #if defined(__x86_64__)
//   #include "mneme/cpu/avx512.inl"          or avx2.inl; portable.inl needs neither #if nor an end
//   // a comment: clang-format sorts what is not apart
//   #include "cpu/kernel_table.inl"          the kernels, in an anonymous namespace
//   namespace my_memory::cpu {
//   const KernelTable kAvx512Kernels = make_table("avx512");
//   }  // namespace my_memory::cpu
//   #include "mneme/cpu/target_end.inl"
//   #endif
//
// and the one to run is chosen when the plugin runs.
#pragma once

#include <vector>

namespace mneme {
inline namespace sdk_0_1 {
namespace cpu {

// Those that this processor can run, the fastest first. Elsewhere than on x86-64 the first two are
// not looked at and may be null.
template <typename Table>
std::vector<const Table*> usable_tables(const Table* avx512, const Table* avx2,
                                        const Table* portable) {
  std::vector<const Table*> usable;
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) usable.push_back(avx512);
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) usable.push_back(avx2);
#else
  static_cast<void>(avx512);
  static_cast<void>(avx2);
#endif
  usable.push_back(portable);
  return usable;
}

}  // namespace cpu
}  // namespace sdk_0_1
}  // namespace mneme
