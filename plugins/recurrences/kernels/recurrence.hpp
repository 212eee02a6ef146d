// The recurrence of linear attention with decay, and with the delta rule: what the kernel computes,
// and what its CPU version works on.
#pragma once

#include <cstdint>

#include "mneme/cpp/kernel.hpp"
#include "mneme_kernels/cpu/instruction_sets.hpp"

namespace recurrences {

inline constexpr int64_t kMaxChunk = 128;
inline constexpr int64_t kCudaChunk = 64;  // on CUDA chunks have this length

struct RecurrenceShape {
  int64_t lanes = 0, length = 0;           // B, T
  int64_t groups = 0, heads = 0;           // G of queries and keys; H
  int64_t key_width = 0, value_width = 0;  // K, V
  int64_t chunk = 0;                       // C
  bool is_by_channel = false, is_delta = false, is_f64 = false;

  int64_t decay_width() const { return is_by_channel ? key_width : 1; }
  int64_t state_elements() const { return key_width * value_width; }
  int64_t chunks() const { return (length + chunk - 1) / chunk; }
  // States before all chunks but the first, which backward starts from.
  int64_t kept() const { return length > chunk ? chunks() - 1 : 0; }
  // Of a piece: without groups there is none.
  int64_t heads_of_group() const { return heads / groups; }
};

// Contiguous, row-major, in f64 or f32 (RecurrenceShape::is_f64); null where an extent is 0.
struct RecurrenceBuffers {
  const void* q = nullptr;      // [B,T,G,K]
  const void* k = nullptr;      // [B,T,G,K]
  const void* v = nullptr;      // [B,T,H,V]
  const void* decay = nullptr;  // [B,T,H] or [B,T,H,K]
  const void* state = nullptr;  // [B,H,K,V]
  const void* beta = nullptr;   // [B,T,H], null without the delta rule
  void* out = nullptr;          // [B,T,H,V]; forward only
  void* last_state = nullptr;   // [B,H,K,V]; forward only
  void* kept = nullptr;         // [B,H,kept,K,V]; null when no backward follows
};

// A gradient that is not wanted is null; one that arrives null reads as zeros.
struct RecurrenceGradients {
  const void* out = nullptr;         // [B,T,H,V]
  const void* last_state = nullptr;  // [B,H,K,V]
  void *q = nullptr, *k = nullptr, *v = nullptr, *decay = nullptr, *state = nullptr,
       *beta = nullptr;  // shaped as the inputs
};

// The functions of one instruction set. Any thread may work on a piece, alone. `scratch` has at
// least so many bytes as *_scratch says, at any address.
struct RecurrenceKernels {
  uint64_t (*forward_scratch)(const RecurrenceShape&);
  // piece = lane * H + head.
  void (*forward)(const RecurrenceShape&, const RecurrenceBuffers&, void* scratch, int64_t piece);
  MNEME_DECLARE_KERNELS(RecurrenceKernels);
};
struct RecurrenceBackwardKernels {
  uint64_t (*backward_scratch)(const RecurrenceShape&);
  // piece = lane * G + group: the heads of a group add up their gradients of q and k.
  void (*backward)(const RecurrenceShape&, const RecurrenceBuffers&, const RecurrenceGradients&,
                   void* scratch, int64_t piece);
  MNEME_DECLARE_KERNELS(RecurrenceBackwardKernels);
};

// Inputs    0 q [B,T,G,K]   1 k [B,T,G,K]   2 v [B,T,H,V], all f32 or all f64, as the others
//           3 decay [B,T,H], one for each head, or [B,T,H,K], one for each head and channel of the
//             keys: logarithms, at most 0 where nothing shall grow
//           4 state S_0 [B,H,K,V]
//           5 beta [B,T,H], may be absent
//           H is a multiple of G; head h of the values goes with head h / (H / G) of the keys.
// Integer   0 chunk C, 1 .. 128: tokens worked on together on the CPU, on CUDA 64. Results do not
//             depend on it but by rounding
// Outputs   0 out [B,T,H,V]   1 S_T [B,H,K,V]
// Saved     the states before all chunks but the first
//
//   S_t   = diag(exp(decay_t)) S_(t-1) + k_t u_t^T
//   out_t = S_t^T q_t
//   u_t   = v_t                                                  without beta
//   u_t   = beta_t (v_t - (diag(exp(decay_t)) S_(t-1))^T k_t)    with beta: the delta rule
//
// [GLA, eq. 3; Mamba-2, eq. 6 with one decay a head; Gated DeltaNet, eq. 10.] Chunks are computed
// by products [GLA, section 4; Mamba-2, section 6; Gated DeltaNet, section 3.3]. With G_i the sum
// of the decays of a chunk up to token i, S the state before the chunk, and
//
//   scores(x, y)_ij = sum_c x_ic y_jc exp(G_ic - G_jc), i >= j
//
//   A = scores(q, k)     L = scores(k, k) below the diagonal
//   U = V, or by substitution (I + diag(beta) L) U = diag(beta) (V - (k exp(G)) S)
//   out = (q exp(G)) S + A U     S' = diag(exp(G_C)) S + (k exp(G_C - G))^T U
//
// With one decay a head no exponent is above 0. With one for each channel scores go by blocks of 24
// tokens, whose rows are scaled towards the block's first token, by at most e^30 (f32) or e^300
// (f64); where a channel's decays within a block sum to less than -30 or -300, that block's own
// scores are summed with their differences. On CUDA blocks have 16 tokens, all of whose own scores
// are.
//
// The backward pass goes from the last chunk to the first and computes A, L and U of each again.
// Decays have the gradient [GLA, section 4.3]
//
//   dG_i = q_i dq_i + k_i (dk_i as a row of scores - dk_i as a column), and for G_C the rest
//
// Deterministic; the same bits for any number of threads. A NaN in a lane and group reaches no
// other. Forward, a call of up to 4 tokens (and one chunk) goes token by token.
class Recurrence {
 public:
  static constexpr const char* kName = "recurrence";
  static constexpr uint32_t kInputs = 6;
  static constexpr uint32_t kOutputs = 2;
  static constexpr uint32_t kSaved = 1;
  static constexpr uint64_t kKeepInputs = 0x3F;  // all
  static constexpr uint64_t kOptionalInputs = 0x20;
  static constexpr uint32_t kFlags = mneme::kCapturable | mneme::kDeterministic;

  // `set`: the CPU's instruction set.
  explicit Recurrence(mneme::cpu::InstructionSet set = mneme::cpu::fastest_instruction_set());

  // Errors: Failure(MNEME_E_SHAPE | MNEME_E_DTYPE | MNEME_E_INVALID_ARGUMENT) naming the input.
  void infer(mneme::KernelPlan& plan) const;
  void forward_cpu(const mneme::KernelCall& call) const;
  void backward_cpu(const mneme::KernelCall& call) const;
#ifdef MNEME_HAS_CUDA
  static constexpr bool kServesCuda = true;
  void forward_cuda(const mneme::KernelCall& call) const;
  void backward_cuda(const mneme::KernelCall& call) const;
#else
  static constexpr bool kServesCuda = false;
#endif

 private:
#ifdef MNEME_HAS_CUDA
  // With chunks of kCudaChunk.
  static RecurrenceShape cuda_shape_of(const mneme::KernelCall& call);
  // Errors: Failure(MNEME_E_CUDA) where an input has no memory.
  static void check_cuda_inputs(const mneme::KernelCall& call);
#endif

  const RecurrenceKernels* forward_;
  const RecurrenceBackwardKernels* backward_;
};

}  // namespace recurrences
