// The kernel behind the pooling functions: groups of rows to one row each.
#pragma once

#include <cstdint>

#include "mneme/cpp/element.hpp"
#include "mneme/cpp/kernel.hpp"
#include "mneme_kernels/cpu/instruction_sets.hpp"

namespace compressive {

enum class PoolKind : int64_t { kMean = 0, kMax = 1 };

struct PoolShape {
  int64_t lanes = 0;  // B
  int64_t rows = 0;   // m
  int64_t width = 0;  // D
  int64_t rate = 1;   // c
  PoolKind kind = PoolKind::kMean;
  mneme::ElementType element = mneme::ElementType::kF32;

  int64_t windows() const { return rows / rate; }  // of a lane
  int64_t rest() const { return rows % rate; }     // a lane's newest rows, in no window
};

// Contiguous, row-major; null where an extent is 0.
struct PoolBuffers {
  const void* rows = nullptr;  // [B,m,D]
  void* pooled = nullptr;      // [B,m/c,D]
};

// arriving: null reads as zeros.
struct PoolGradients {
  const void* rows = nullptr;      // [B,m,D]; read for the largest rows only
  const void* arriving = nullptr;  // [B,m/c,D]
  void* rows_grad = nullptr;       // [B,m,D]
};

// The CPU's functions, of one instruction set (kernels/cpu/pool.cpp). A piece is one window of one
// lane, 0 .. B * (m / c) - 1, and any thread may work on it alone. The last window of a lane does
// the backward pass of the rows behind it as well.
struct PoolKernels {
  void (*pool)(const PoolShape&, const PoolBuffers&, int64_t window);
  void (*pool_backward)(const PoolShape&, const PoolGradients&, int64_t window);
  MNEME_DECLARE_KERNELS(PoolKernels);
};

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

  // `set`: the CPU's instruction set.
  explicit Pool(mneme::cpu::InstructionSet set = mneme::cpu::fastest_instruction_set());

  // Errors: Failure(MNEME_E_SHAPE | MNEME_E_DTYPE | MNEME_E_INVALID_ARGUMENT).
  void infer(mneme::KernelPlan& plan) const;
  void forward_cpu(const mneme::KernelCall& call) const;
  void backward_cpu(const mneme::KernelCall& call) const;
#ifdef MNEME_HAS_CUDA
  void forward_cuda(const mneme::KernelCall& call) const;
  void backward_cuda(const mneme::KernelCall& call) const;
#endif

 private:
  static PoolShape shape_of(const mneme::KernelCall& call);
  static PoolBuffers buffers_of(const mneme::KernelCall& call);
  static PoolGradients gradients_of(const mneme::KernelCall& call);

  const PoolKernels* kernels_;
};

}  // namespace compressive
