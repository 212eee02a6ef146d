// The kernel that evaluates the memory's signal at chosen positions.
#pragma once

#include <cstdint>

#include "basis_grid.hpp"
#include "mneme/cpp/kernel.hpp"
#include "mneme_kernels/cpu/instruction_sets.hpp"

namespace continuous_ltm {

struct SignalShape {
  int64_t lanes = 0;    // B
  int64_t samples = 0;  // M
  int64_t width = 0;    // D
  BasisGrid grid;       // N functions
  bool is_f64 = false;  // coefficients and rows; positions are f64 always

  // On CUDA: the order of the positions.
  uint64_t cuda_workspace() const {
    return static_cast<uint64_t>(lanes * samples) * sizeof(int32_t);
  }
};

// Contiguous, row-major; null where an extent is 0.
struct SignalBuffers {
  const double* positions = nullptr;   // [B,M]
  const void* coefficients = nullptr;  // [B,N,D]
  void* rows = nullptr;                // [B,M,D]
};

inline constexpr int64_t kSignalPanel = 64;  // columns of a piece of work

// The CPU's functions, of one instruction set (kernels/cpu/signal.cpp). Any thread may work on a
// piece, alone; `scratch` has at least so many bytes as *_scratch says, at any address, belongs to
// one piece at a time and needs no initial value.
struct SignalKernels {
  // A piece is one panel of kSignalPanel columns of one lane, 0 .. B * ceil(D / kSignalPanel) - 1.
  uint64_t (*signal_scratch)(const SignalShape&);
  void (*signal)(const SignalShape&, const SignalBuffers&, void* scratch, int64_t panel);
  MNEME_DECLARE_KERNELS(SignalKernels);
};

// Inputs   0 positions [B,M] f64   1 coefficients [B,N,D], f32 or f64
// Output   0 rows [B,M,D], as the coefficients
//
//   rows = sum_n psi_n(position) C_n,   psi_n the normal density at mu_n of width sigma_n
//
// with C the coefficients [infinity-former, eq. 4; at the samples of an update, eq. 14]. Positions
// stay f64 where the coefficients are f32. Functions beyond the grid's band are not visited, which
// saves most with sorted positions. No gradient. The same bits for any number of threads.
class Signal {
 public:
  static constexpr const char* kName = "continuous_ltm_signal";
  static constexpr uint32_t kInputs = 2;
  static constexpr uint32_t kOutputs = 1;
  static constexpr uint32_t kFlags = mneme::kCapturable | mneme::kDeterministic;

  // `set`: the CPU's instruction set.
  explicit Signal(const BasisGrid& grid,
                  mneme::cpu::InstructionSet set = mneme::cpu::fastest_instruction_set());

  // Errors: Failure(MNEME_E_SHAPE | MNEME_E_DTYPE) naming the input.
  void infer(mneme::KernelPlan& plan) const;
  void forward_cpu(const mneme::KernelCall& call) const;
#ifdef MNEME_HAS_CUDA
  void forward_cuda(const mneme::KernelCall& call) const;
#endif

 private:
  SignalShape shape_of(const mneme::KernelCall& call) const;
  static SignalBuffers buffers_of(const mneme::KernelCall& call);

  BasisGrid grid_;
  const SignalKernels* kernels_;
};

}  // namespace continuous_ltm
