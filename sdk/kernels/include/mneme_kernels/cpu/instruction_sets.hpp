// CPU kernels that are compiled once for each instruction set, of which the plugin chooses one when
// it runs. The header of a kernel has its functions, as pointers:
//
//   struct ScaleKernels {
//     void (*scale)(const float* from, int64_t count, float* to);
//     MNEME_DECLARE_KERNELS(ScaleKernels);
//   };
//
// in a source of its own, which mneme_add_plugin(... CPU_KERNELS scale.cpp) compiles several times,
// the functions:
//
//   #include "scale.hpp"  // headers for any processor come first
//   // The rest is compiled for one instruction set:
//   #include "mneme_kernels/cpu/begin.inl"
//   namespace cpu {
//   namespace {
//   void scale(const float* from, int64_t count, float* to) { ... }
//   }  // namespace
//   }  // namespace cpu
//   const ScaleKernels ScaleKernels::MNEME_INSTRUCTION_SET = {&cpu::scale};
//   #include "mneme_kernels/cpu/end.inl"
//
// and mneme::cpu::kernels<ScaleKernels>(set).scale(...) calls them.
#pragma once

#include <string>
#include <vector>

namespace mneme {
inline namespace sdk_0_1 {
namespace cpu {

enum class InstructionSet {
  kPortable,  // any processor, vectors of 16 bytes
  kAvx2,      // x86-64: AVX2 and FMA
  kAvx512,    // x86-64: AVX-512 F
};

inline std::string name_of(InstructionSet set) {
  switch (set) {
    case InstructionSet::kAvx2:
      return "avx2";
    case InstructionSet::kAvx512:
      return "avx512";
    default:
      return "portable";
  }
}

// Those that this processor has, the fastest first; kPortable is always the last. Any thread.
inline std::vector<InstructionSet> usable_instruction_sets() {
  std::vector<InstructionSet> usable;
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) usable.push_back(InstructionSet::kAvx512);
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    usable.push_back(InstructionSet::kAvx2);
  }
#endif
  usable.push_back(InstructionSet::kPortable);
  return usable;
}
inline InstructionSet fastest_instruction_set() { return usable_instruction_sets().front(); }

#if defined(__x86_64__)
#define MNEME_DECLARE_KERNELS(Kernels) \
  static const Kernels portable;       \
  static const Kernels avx2;           \
  static const Kernels avx512
#else
#define MNEME_DECLARE_KERNELS(Kernels) static const Kernels portable
#endif

// The functions compiled for `set`, which this processor must have to run them.
template <typename Kernels>
const Kernels& kernels([[maybe_unused]] InstructionSet set) {
#if defined(__x86_64__)
  if (set == InstructionSet::kAvx512) return Kernels::avx512;
  if (set == InstructionSet::kAvx2) return Kernels::avx2;
#endif
  return Kernels::portable;
}

}  // namespace cpu
}  // namespace sdk_0_1
}  // namespace mneme
