// The kernel behind the pooling functions: groups of rows to one row each.
#pragma once

#include "mneme/cpp/kernel.hpp"
#include "pool_args.hpp"

namespace compressive {

namespace cpu {
struct KernelTable;
}  // namespace cpu

// Input     0 rows [B,m,D], f32, f64, bf16 or f16
// Integers  0 rate c, at least 1   1 kind, 0 mean or 1 max
// Output    0 pooled [B, floor(m/c), D] in the rows' type
//
//   mean   pooled_i = sum_t rows_{ic+t} / c      drows_{ic+t} = dpooled_i / c
//   max    pooled_i = max_t rows_{ic+t}          dpooled_i goes to the first of the largest
//
// for t < c, column by column [Rae et al. 2019, section 3.2]. Means are summed in f32, in f64 with
// rows of f64. A NaN in a group is its mean and its max, and counts as the largest. The m mod c
// newest rows are in no group and have gradient 0; m < c gives no row. The same bits for any number
// of threads.
class Pool {
 public:
  static constexpr const char* kName = "compressive_pool";
  static constexpr uint32_t kInputs = 1;
  static constexpr uint32_t kOutputs = 1;
  static constexpr uint64_t kKeepInputs = 0b1;
  static constexpr uint32_t kFlags = mneme::kCapturable | mneme::kDeterministic;

  // `table`: the CPU's instruction set, the best one when null.
  explicit Pool(const cpu::KernelTable* table = nullptr);

  // Errors: Failure(MNEME_E_SHAPE | MNEME_E_DTYPE | MNEME_E_INVALID_ARGUMENT).
  void infer(mneme::KernelPlan& plan) const;
  void forward_cpu(const mneme::KernelCall& call) const;
  void backward_cpu(const mneme::KernelCall& call) const;
#ifdef MNEME_HAS_CUDA
  void forward_cuda(const mneme::KernelCall& call) const;
  void backward_cuda(const mneme::KernelCall& call) const;
#endif

 private:
  const cpu::KernelTable* table_;
};

}  // namespace compressive
