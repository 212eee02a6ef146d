// The kernel behind the attention-reconstruction loss: how far attention over compressed rows is
// from attention over the rows that they were made of.
#pragma once

#include "mneme/cpp/kernel.hpp"
#include "reconstruction_args.hpp"

namespace compressive {

namespace cpu {
struct KernelTable;
}  // namespace cpu

// Inputs    0 q [B,T,H,d]   1 k_old [B,E,H,d]   2 v_old [B,E,H,d]   3 k_new [B,N,H,d]
//           4 v_new [B,N,H,d], all f32, f64 or bf16   5 counts [B,2] i64: a lane's old rows are the
//           first counts[b][0], its new rows the first counts[b][1]; 0 <= counts <= E, N
// Integer   0 wants_gradient, 0 or 1: without it the derivatives are not computed, and a backward
//           pass is an error. The caller knows whether there will be one, a kernel does not.
// Real      0 scale of the scores
// Output    0 error [B], f64 with inputs of f64, else f32
//
//   error = sum over T,H,d of (a_new - a_old)^2,   a = softmax(scale q K^T) V
//
// [Rae et al. 2019, algorithm 2]: content attention, each over its own rows. k_new and v_new have
// gradients; q, k_old and v_old are constants by definition. A lane without old or without new rows
// has error 0 and no gradient. Sums are f32, with inputs of f64 in f64; the error's over queries
// are f64 on the CPU.
//
// Nothing of size [T,E] or [T,N] exists but a tile of queries. The result is used linearly, so the
// derivatives, saved for the backward pass to scale by what arrives, are made in the same sweep:
//
//   da = 2 (a_new - a_old)     dV = P^T da     dP = da V^T
//   dS = P (dP - sum_d da a_new)               dK = scale dS^T q
//
// Flops: 4 B H T (E + N) d, and 6 B H T N d for the derivatives. On the CPU the same bits for any
// number of threads. A NaN reaches its lane's error and its head's gradients, no other lane's;
// rows beyond a lane's counts may hold anything.
class Reconstruction {
 public:
  static constexpr const char* kName = "compressive_reconstruction";
  static constexpr uint32_t kInputs = 6;
  static constexpr uint32_t kOutputs = 1;
  static constexpr uint32_t kSaved = 2;
  static constexpr uint32_t kFlags = mneme::kCapturable | mneme::kDeterministic;

  // `table`: the CPU's instruction set, the best one when null.
  explicit Reconstruction(const cpu::KernelTable* table = nullptr);

  // Errors: Failure(MNEME_E_SHAPE | MNEME_E_DTYPE | MNEME_E_INVALID_ARGUMENT) naming the input.
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
