// The kernel that evaluates the memory's signal at chosen positions.
#pragma once

#include "mneme/cpp/kernel.hpp"
#include "signal_args.hpp"

namespace continuous_ltm {

namespace cpu {
struct KernelTable;
}  // namespace cpu

// Inputs   0 positions [B,M] f64   1 coefficients [B,N,D], f32 or f64
// Output   0 rows [B,M,D], as the coefficients
//
//   rows = sum_n psi_n(position) B_n,   psi_n the normal density at mu_n of width sigma_n
//
// [infinity-former, eq. 3]. Positions keep their digits where the coefficients are f32. Functions
// beyond the grid's band are not visited; quickest when neighbouring positions lie close together,
// as sorted ones do. No gradient. The same bits for any number of threads.
class Signal {
 public:
  static constexpr const char* kName = "continuous_ltm_signal";
  static constexpr uint32_t kInputs = 2;
  static constexpr uint32_t kOutputs = 1;
  static constexpr uint32_t kFlags = mneme::kCapturable | mneme::kDeterministic;

  // `table`: the CPU's instruction set, the best one when null.
  explicit Signal(const BasisGrid& grid, const cpu::KernelTable* table = nullptr);

  // Errors: Failure(MNEME_E_SHAPE | MNEME_E_DTYPE) naming the input.
  void infer(mneme::KernelPlan& plan) const;
  void forward_cpu(const mneme::KernelCall& call) const;
#ifdef MNEME_HAS_CUDA
  void forward_cuda(const mneme::KernelCall& call) const;
#endif

 private:
  SignalShape shape_of(const mneme::KernelCall& call) const;

  BasisGrid grid_;
  const cpu::KernelTable* table_;
};

}  // namespace continuous_ltm
