// LibTorch's attention kernels for CUDA as functions on the CPU: aten::_flash_attention_* and
// aten::_efficient_attention_*, by definition in double. They refuse what those of LibTorch 2.11
// refuse, what would give NaN there, and what the host never asks for.
#pragma once

namespace mneme::backbone {

// Calls so far.
struct KernelCalls {
  int flash = 0, flash_backward = 0;
  int efficient = 0, efficient_backward = 0;
  auto operator<=>(const KernelCalls&) const = default;
};
KernelCalls kernel_calls();

}  // namespace mneme::backbone
