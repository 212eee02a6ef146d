// The kernel behind the attention-reconstruction loss: how far attention over compressed rows is
// from attention over the rows that they were made of.
#pragma once

#include <cstdint>

#include "mneme/cpp/element.hpp"
#include "mneme/cpp/kernel.hpp"
#include "mneme_kernels/cpu/instruction_sets.hpp"

namespace compressive {

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
// rows beyond a lane's counts are ignored.
class Reconstruction;

struct ReconstructionShape {
  int64_t lanes = 0;                                      // B
  int64_t queries = 0;                                    // T
  int64_t heads = 0;                                      // H
  int64_t head_width = 0;                                 // d
  int64_t old_rows = 0;                                   // E
  int64_t new_rows = 0;                                   // N
  mneme::ElementType element = mneme::ElementType::kF32;  // of queries, keys and values
  bool wants_gradient = false;
  double scale = 1.0;

  bool is_f64() const { return element == mneme::ElementType::kF64; }
  int64_t elements() const { return lanes * queries * heads * head_width; }
  int64_t new_elements() const { return lanes * new_rows * heads * head_width; }
};

// Contiguous, row-major; null where an extent is 0. Errors and gradients are f64 with inputs of
// f64, else f32.
struct ReconstructionBuffers {
  const void* q = nullptr;          // [B,T,H,d]
  const void* k_old = nullptr;      // [B,E,H,d]
  const void* v_old = nullptr;      // [B,E,H,d]
  const void* k_new = nullptr;      // [B,N,H,d]
  const void* v_new = nullptr;      // [B,N,H,d]
  const int64_t* counts = nullptr;  // [B,2]
  void* error = nullptr;            // [B]
  void* k_grad = nullptr;  // [B,N,H,d] derivatives of the error; null without wants_gradient
  void* v_grad = nullptr;  // [B,N,H,d]
};

// Backward: what the forward pass saved, times the gradient that arrives. A gradient that is not
// wanted is null; arriving null reads as zeros.
struct ReconstructionGradients {
  const void* arriving = nullptr;  // [B]
  const void* k_saved = nullptr;   // [B,N,H,d]
  const void* v_saved = nullptr;   // [B,N,H,d]
  void* k_new = nullptr;           // [B,N,H,d]
  void* v_new = nullptr;           // [B,N,H,d]
};

// ---- CPU (kernels/cpu/reconstruction.cpp) -------------------------------------------------------

inline constexpr int64_t kQueryTile = 48;  // queries that are worked on together

// What the pieces of one reconstruction error leave for the sums over them. A piece is one group of
// queries of one head of one lane, (lane * H + head) * groups + group.
struct ReconstructionParts {
  int64_t groups = 1;
  double* errors = nullptr;   // [B,H,groups]
  void* gradients = nullptr;  // [B,H,groups,2,N,d], keys' then values'; null with one group, which
                              // writes the gradients themselves
};

// The functions of one instruction set. Any thread may work on a piece, alone. `scratch` has at
// least so many bytes as *_scratch says, at any address; it belongs to one piece at a time and
// needs no initial value.
struct ReconstructionKernels {
  uint64_t (*reconstruct_scratch)(const ReconstructionShape&);
  void (*reconstruct)(const ReconstructionShape&, const ReconstructionBuffers&,
                      const ReconstructionParts&, void* scratch, int64_t piece);
  // The groups' gradients of one head of one lane, summed in their order.
  void (*sum_groups)(const ReconstructionShape&, const ReconstructionBuffers&,
                     const ReconstructionParts&, int64_t head);
  // A piece is one new row of one lane, 0 .. B * N - 1.
  void (*scale_gradients)(const ReconstructionShape&, const ReconstructionGradients&, int64_t row);
  MNEME_DECLARE_KERNELS(ReconstructionKernels);
};

class Reconstruction {
 public:
  static constexpr const char* kName = "compressive_reconstruction";
  static constexpr uint32_t kInputs = 6;
  static constexpr uint32_t kOutputs = 1;
  static constexpr uint32_t kSaved = 2;
  static constexpr uint64_t kConstantInputs = 7;  // what the old rows give
  static constexpr uint32_t kFlags = mneme::kCapturable | mneme::kDeterministic;

  // `set`: the CPU's instruction set.
  explicit Reconstruction(mneme::cpu::InstructionSet set = mneme::cpu::fastest_instruction_set());

  // Errors: Failure(MNEME_E_SHAPE | MNEME_E_DTYPE | MNEME_E_INVALID_ARGUMENT) naming the input.
  void infer(mneme::KernelPlan& plan) const;
  void forward_cpu(const mneme::KernelCall& call) const;
  void backward_cpu(const mneme::KernelCall& call) const;
#ifdef MNEME_HAS_CUDA
  void forward_cuda(const mneme::KernelCall& call) const;
  void backward_cuda(const mneme::KernelCall& call) const;
#endif

 private:
  static ReconstructionShape shape_of(const mneme::KernelCall& call);
  static ReconstructionBuffers buffers_of(const mneme::KernelCall& call);
  static ReconstructionGradients gradients_of(const mneme::KernelCall& call);
#ifdef MNEME_HAS_CUDA
  static uint64_t cuda_workspace(const ReconstructionShape& shape);
#else
  static uint64_t cuda_workspace(const ReconstructionShape&) { return 0; }
#endif

  const ReconstructionKernels* kernels_;
};

}  // namespace compressive
