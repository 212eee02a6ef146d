// The workspace of the recurrence on CUDA, which infer counts and the launches hand out.
#pragma once

#include "kernels/recurrence.hpp"
#include "mneme_kernels/cpu/arena.hpp"

namespace recurrences {

constexpr int64_t kCudaSteps = 4;  // forward, so few tokens are worked on one by one

// Null where there is none. n chunks of kCudaChunk tokens; a matrix of a chunk [C,C] is whole, with
// zeros behind the last token.
template <typename T>
struct CudaWorkspace {
  T *start = nullptr, *end = nullptr;  // [B,T,H] or [B,T,H,K] exp(G), exp(G_C - G)
  T* scores = nullptr;                 // [B,H,n,C,C] A; backward later its gradient
  T* inverse = nullptr;                // [B,H,n,C,C] (I + L diag(beta))^-1, delta; later dL
  T* errors = nullptr;                 // [B,T,H,V] U = diag(beta) errors, delta
  T* states = nullptr;                 // [B,H,kept,K,V] states before all chunks but the first
  // Backward.
  T* scaled_inverse = nullptr;  // [B,H,n,C,C] (I + diag(beta) L)^-1, delta
  T* steps = nullptr;           // [B,T,H,V] dV = diag(beta) steps, delta
  T* grad_states = nullptr;     // [B,H,n,K,V] gradients of the states behind all chunks

  // Of the forward pass; `keeps_states`: they are saved and need no room here.
  static CudaWorkspace forward(mneme::cpu::Arena& arena, const RecurrenceShape& s,
                               bool keeps_states) {
    CudaWorkspace to;
    if (s.length <= kCudaSteps) return to;
    to.take_both(arena, s);
    if (!keeps_states) to.states = arena.take<T>(s.lanes * s.heads * s.kept() * s.state_elements());
    return to;
  }
  static CudaWorkspace backward(mneme::cpu::Arena& arena, const RecurrenceShape& s) {
    CudaWorkspace to;
    to.take_both(arena, s);
    to.grad_states = arena.take<T>(s.lanes * s.heads * s.chunks() * s.state_elements());
    if (!s.is_delta) return to;
    to.scaled_inverse = arena.take<T>(squares(s));
    to.steps = arena.take<T>(s.lanes * s.length * s.heads * s.value_width);
    return to;
  }

 private:
  static int64_t squares(const RecurrenceShape& s) {
    return s.lanes * s.heads * s.chunks() * kCudaChunk * kCudaChunk;
  }
  void take_both(mneme::cpu::Arena& arena, const RecurrenceShape& s) {
    const int64_t tokens = s.lanes * s.length * s.heads;
    start = arena.take<T>(tokens * s.decay_width());
    end = arena.take<T>(tokens * s.decay_width());
    scores = arena.take<T>(squares(s));
    if (!s.is_delta) return;
    inverse = arena.take<T>(squares(s));
    errors = arena.take<T>(tokens * s.value_width);
  }
};

// Bytes, enough at any address.
inline uint64_t cuda_workspace(const RecurrenceShape& s, bool keeps_states) {
  mneme::cpu::Arena arena(nullptr);
  s.is_f64 ? static_cast<void>(CudaWorkspace<double>::forward(arena, s, keeps_states))
           : static_cast<void>(CudaWorkspace<float>::forward(arena, s, keeps_states));
  return arena.bytes();
}
inline uint64_t cuda_backward_workspace(const RecurrenceShape& s) {
  mneme::cpu::Arena arena(nullptr);
  s.is_f64 ? static_cast<void>(CudaWorkspace<double>::backward(arena, s))
           : static_cast<void>(CudaWorkspace<float>::backward(arena, s));
  return arena.bytes();
}

}  // namespace recurrences
