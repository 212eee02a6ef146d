// The kernel that reads the memory: the expected value of the signal under each query's density.
#pragma once

#include "expectation_args.hpp"
#include "mneme/cpp/kernel.hpp"
#include "mneme/cpu/strands.hpp"

namespace continuous_ltm {

namespace cpu {
struct KernelTable;
}  // namespace cpu

// Inputs   0 mu [B,H,T]   1 variance s2 [B,H,T], above 0   2 values V [B,N,H,d]
// Output   0 context [B,T,H,d]
//
//   context = sum_n r_n V_n,   r_n = N(mu; mu_n, v_n),   v_n = sigma_n^2 + s2
//
// [infinity-former, eq. 9-11; the integral runs over the whole line]. Densities are f32 with values
// of f32, bf16 or f16, and f64 with values of f64; sums are in the densities' type. All three
// inputs have gradients:
//
//   dr_n = dcontext . V_n            dmu = sum_n dr_n r_n (mu_n - mu) / v_n
//   dV_n = sum_queries r_n dcontext  ds2 = sum_n dr_n r_n ((mu - mu_n)^2 / v_n - 1) / (2 v_n)
//
// r is computed where it is used, forward and backward; nothing of size [B,H,T,N] exists. Functions
// beyond the grid's band of all queries that are worked on together are not visited. The same bits
// for any number of threads. A NaN in a density reaches its own query's context and gradients and
// the gradients of its head's values, no other head's.
class Expectation {
 public:
  static constexpr const char* kName = "continuous_ltm_expectation";
  static constexpr uint32_t kInputs = 3;
  static constexpr uint32_t kOutputs = 1;
  static constexpr uint64_t kKeepInputs = 0b111;
  static constexpr uint32_t kFlags = mneme::kCapturable | mneme::kDeterministic;

  // `table`: the CPU's instruction set, the best one when null.
  explicit Expectation(const BasisGrid& grid, const cpu::KernelTable* table = nullptr);

  // Errors: Failure(MNEME_E_SHAPE | MNEME_E_DTYPE) naming the input.
  void infer(mneme::KernelPlan& plan) const;
  void forward_cpu(const mneme::KernelCall& call) const;
  void backward_cpu(const mneme::KernelCall& call) const;
#ifdef MNEME_HAS_CUDA
  void forward_cuda(const mneme::KernelCall& call) const;
  void backward_cuda(const mneme::KernelCall& call) const;
#endif

 private:
  ExpectationShape shape_of(const mneme::KernelCall& call) const;
  mneme::cpu::Strands forward_strands(const ExpectationShape& shape) const;
  mneme::cpu::Strands backward_strands(const ExpectationShape& shape) const;

  BasisGrid grid_;
  const cpu::KernelTable* table_;
};

}  // namespace continuous_ltm
