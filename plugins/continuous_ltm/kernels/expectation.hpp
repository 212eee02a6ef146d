// The kernel that reads the memory: the expected value of the signal under each query's density.
#pragma once

#include <cstdint>

#include "basis_grid.hpp"
#include "mneme/cpp/element.hpp"
#include "mneme/cpp/kernel.hpp"
#include "mneme_kernels/cpu/instruction_sets.hpp"
#include "mneme_kernels/cpu/strands.hpp"

namespace continuous_ltm {

struct ExpectationShape {
  int64_t lanes = 0;       // B
  int64_t heads = 0;       // H
  int64_t queries = 0;     // T
  int64_t head_width = 0;  // d
  BasisGrid grid;          // N functions
  mneme::ElementType element =
      mneme::ElementType::kF32;  // of values and context; densities are f64 with kF64, else f32

  int64_t densities() const { return lanes * heads * queries; }
  // On CUDA: the order of the queries.
  uint64_t cuda_workspace() const { return static_cast<uint64_t>(densities()) * sizeof(int32_t); }
};

// Contiguous, row-major; null where an extent is 0.
struct ExpectationBuffers {
  const void* mu = nullptr;        // [B,H,T]
  const void* variance = nullptr;  // [B,H,T]
  const void* values = nullptr;    // [B,N,H,d]
  void* context = nullptr;         // [B,T,H,d]; unused backward
};

// A gradient that is not wanted is null. context: null reads as zeros.
struct ExpectationGradients {
  const void* context = nullptr;  // [B,T,H,d]
  void* mu = nullptr;             // [B,H,T]
  void* variance = nullptr;       // [B,H,T]
  void* values = nullptr;         // [B,N,H,d]
};

// Means and variances [B,H,T] of the attention densities, both f32 or both f64. Errors:
// Failure(MNEME_E_SHAPE | MNEME_E_DTYPE).
void check_densities(const mneme::TypedShape& mu, const mneme::TypedShape& variance);

// The CPU's functions, of one instruction set (kernels/cpu/expectation.cpp). Any thread may work on
// a piece, alone; `scratch` has at least so many bytes as *_scratch says, at any address, belongs
// to one piece at a time and needs no initial value.
struct ExpectationKernels {
  // A piece is one head of one lane, 0 .. B * H - 1.
  uint64_t (*expect_scratch)(const ExpectationShape&);
  void (*expect)(const ExpectationShape&, const ExpectationBuffers&, void* scratch, int64_t head);
  uint64_t (*expect_backward_scratch)(const ExpectationShape&);
  void (*expect_backward)(const ExpectationShape&, const ExpectationBuffers&,
                          const ExpectationGradients&, void* scratch, int64_t head);
  MNEME_DECLARE_KERNELS(ExpectationKernels);
};

// Inputs   0 mu [B,H,T]   1 variance s2 [B,H,T], above 0   2 values V [B,N,H,d]
// Output   0 context [B,T,H,d]
//
//   context = sum_n r_n V_n,   r_n = N(mu; mu_n, v_n),   v_n = sigma_n^2 + s2
//
// [infinity-former, eq. 11, with mu and s2 of eq. 9 and 10 as inputs; the integral runs over the
// whole line]. Densities are f32 with values of f32, bf16 or f16, and f64 with values of f64; sums
// are in the densities' type. All three inputs have gradients:
//
//   dr_n = dcontext . V_n            dmu = sum_n dr_n r_n (mu_n - mu) / v_n
//   dV_n = sum_queries r_n dcontext  ds2 = sum_n dr_n r_n ((mu - mu_n)^2 / v_n - 1) / (2 v_n)
//
// r is computed where it is used, forward and backward; nothing of size [B,H,T,N] exists. A
// function is skipped when it is further than the cutoff from every query of its tile. The same
// bits for any number of threads. A NaN in a density affects only its own query's context and
// gradients, and the gradients of its head's values.
class Expectation {
 public:
  static constexpr const char* kName = "continuous_ltm_expectation";
  static constexpr uint32_t kInputs = 3;
  static constexpr uint32_t kOutputs = 1;
  static constexpr uint64_t kKeepInputs = 0b111;
  static constexpr uint32_t kFlags = mneme::kCapturable | mneme::kDeterministic;

  // `set`: the CPU's instruction set.
  explicit Expectation(const BasisGrid& grid,
                       mneme::cpu::InstructionSet set = mneme::cpu::fastest_instruction_set());

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
  static ExpectationBuffers buffers_of(const mneme::KernelCall& call);
  static ExpectationGradients gradients_of(const mneme::KernelCall& call);
  mneme::cpu::Strands forward_strands(const ExpectationShape& shape) const;
  mneme::cpu::Strands backward_strands(const ExpectationShape& shape) const;

  BasisGrid grid_;
  const ExpectationKernels* kernels_;
};

}  // namespace continuous_ltm
