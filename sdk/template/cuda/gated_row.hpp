// The kernel of my_memory: out[b,d] = tanh(gate[d]) * last[b,d].
#pragma once

#include <cstdint>

#include "mneme/cpp/kernel.hpp"

namespace my_memory {

// Inputs  0 gate [D]  1 last [B,D], of one dtype, f32 or f64
// Output  0 [B,D]
// The class does its own backward pass; the host puts it into its autograd graph.
class GatedRow {
 public:
  static constexpr const char* kName = "gated_row";
  static constexpr uint32_t kInputs = 2;
  static constexpr uint32_t kOutputs = 1;
  static constexpr uint64_t kKeepInputs = 3;  // bits 0 and 1: backward reads both
  static constexpr uint32_t kFlags = mneme::kCapturable | mneme::kDeterministic;

  // Shapes alone, no data. Errors: Failure(MNEME_E_SHAPE | MNEME_E_DTYPE) naming the input.
  void infer(mneme::KernelPlan& plan) const;
  void forward_cpu(const mneme::KernelCall& call) const;
  void backward_cpu(const mneme::KernelCall& call) const;
#ifdef MNEME_HAS_CUDA
  void forward_cuda(const mneme::KernelCall& call) const;
  void backward_cuda(const mneme::KernelCall& call) const;
#endif
};

}  // namespace my_memory
