// The kernel that checks rows for NaN and infinity before they are stored.
#pragma once

#include "mneme/cpp/kernel.hpp"

namespace continuous_ltm {

// Inputs   0 rows [b,m,D], f32 or f64   1 the lanes' numbers [b] i64, for the message
// Output   0 [b] f64, all 0
//
// Fails with MNEME_E_NUMERIC, naming the lane, at the first value that is NaN or infinite: once
// regressed it would spread over the lane's whole memory. CPU only; on CUDA, where a hook must not
// wait for a value, the tier reports a metric instead.
struct FiniteRows {
  static constexpr const char* kName = "continuous_ltm_finite_rows";
  static constexpr uint32_t kInputs = 2;
  static constexpr uint32_t kOutputs = 1;
  static constexpr uint32_t kFlags = mneme::kDeterministic;

  void infer(mneme::KernelPlan& plan) const;
  void forward_cpu(const mneme::KernelCall& call) const;
};

}  // namespace continuous_ltm
