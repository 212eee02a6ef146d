#include "host/tensor/bf16.hpp"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace mneme::tensor {

bool has_bf16_units() {
#if defined(__x86_64__)
  // Leaf 7: subleaf 1 has AVX512_BF16 in bit 5 of eax, subleaf 0 AMX_BF16 in bit 22 of edx.
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (__get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) != 0 && (eax >> 5 & 1U) != 0) return true;
  return __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) != 0 && (edx >> 22 & 1U) != 0;
#else
  return true;
#endif
}

std::string slow_bf16_text(config::Precision precision, c10::Device device, bool has_units) {
  if (precision != config::Precision::kBf16 || !device.is_cpu() || has_units) return "";
  return "precision \"bf16\": this processor has no instructions for it (AVX512_BF16, AMX_BF16), "
         "and \"f32\" is faster: --set train.precision=f32, for evaluations --set "
         "eval.precision=f32";
}

}  // namespace mneme::tensor
