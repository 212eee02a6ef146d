// The gated delta rule, token by token, as a kernel: forward and backward, on the CPU and on CUDA.
#pragma once

#include <cstdint>

#include "mneme/cpp/kernel.hpp"

namespace gated_delta {

// Tokens from one kept state to the next. The backward pass computes the states between two kept
// ones again and holds so many of them at a time.
inline constexpr int64_t kChunk = 16;
// Widest head of the CUDA version: a block of threads holds a state in registers.
inline constexpr int64_t kMaxCudaWidth = 128;

// Inputs   0 q [B,T,H,d]  1 k [B,T,H,d]  2 v [B,T,H,d]  3 alpha [B,T,H]  4 beta [B,T,H]
//          5 state S_0 [B,H,d,d], rows for v, columns for k; all of one dtype, f32 or f64
// Outputs  0 out [B,T,H,d]  1 state S_T [B,H,d,d]
// Saved    0 the states after every kChunk tokens but the last ones, [B,H,ceil(T/kChunk)-1,d,d]
//
//   out_t = S_(t-1) q_t
//   S_t   = alpha_t S_(t-1) (I - beta_t k_t k_t^T) + beta_t v_t k_t^T
//         = alpha_t S_(t-1) + beta_t e_t k_t^T,  e_t = v_t - alpha_t S_(t-1) k_t
//
// Backward, with G = dL/dS_t, u = S_(t-1) k_t, w = G k_t and do = dL/dout_t:
//
//   dv = beta w    dbeta = e.w    dalpha = <G, S_(t-1)> - beta u.w
//   dq = S_(t-1)^T do             dk = beta (G^T e - alpha S_(t-1)^T w)
//   dL/dS_(t-1) = alpha G - alpha beta w k_t^T + do q_t^T
//
// Row i of a state meets no other row, but for the sums in dq, dk, dalpha and dbeta. About 7 d^2
// flops a token and head forward, 22 d^2 backward, 5 d^2 of them for computing states again.
// Memory between the passes: ceil(T/kChunk)-1 states a head; in the backward pass kChunk + 1 of
// them for each thread of the CPU, kChunk for each head on CUDA. Deterministic.
class DeltaRule {
 public:
  static constexpr const char* kName = "delta_rule";
  static constexpr uint32_t kInputs = 6;
  static constexpr uint32_t kOutputs = 2;
  static constexpr uint32_t kSaved = 1;
  static constexpr uint64_t kKeepInputs = 0x3F;  // all
  static constexpr uint32_t kFlags = mneme::kCapturable | mneme::kDeterministic;

  // Errors: Failure(MNEME_E_SHAPE | MNEME_E_DTYPE) naming the input; MNEME_E_UNSUPPORTED on CUDA
  // for d above kMaxCudaWidth.
  void infer(mneme::KernelPlan& plan) const;
  void forward_cpu(const mneme::KernelCall& call) const;
  void backward_cpu(const mneme::KernelCall& call) const;
#ifdef MNEME_HAS_CUDA
  void forward_cuda(const mneme::KernelCall& call) const;
  void backward_cuda(const mneme::KernelCall& call) const;
#endif
};

// Extents, and where the pieces of one head lie.
struct DeltaRuleShape {
  int64_t lanes = 0, length = 0, heads = 0, width = 0;  // B, T, H, d

  int64_t pieces() const { return lanes * heads; }  // piece = lane * H + head
  int64_t state_elements() const { return width * width; }
  int64_t kept() const { return length > kChunk ? (length - 1) / kChunk : 0; }
  // Index of token t of a piece among all [B,T,H].
  int64_t token(int64_t piece, int64_t t) const {
    return (piece / heads * length + t) * heads + piece % heads;
  }
};

inline DeltaRuleShape shape_of(const mneme::KernelCall& call) {
  const mneme::View q = call.input(0);
  return {q.dim(0), q.dim(1), q.dim(2), q.dim(3)};
}

}  // namespace gated_delta
