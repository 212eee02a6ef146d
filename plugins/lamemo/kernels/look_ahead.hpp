// The look-ahead attention of memory rows, merged with what they have attended before: what the
// kernel computes, and what its CPU and CUDA versions work on.
#pragma once

#include <cstdint>

#include "mneme/cpp/element.hpp"
#include "mneme/cpp/kernel.hpp"
#include "mneme_kernels/cpu/instruction_sets.hpp"

namespace lamemo {

struct LookAheadShape {
  int64_t lanes = 0;                                      // B
  int64_t queries = 0;                                    // M
  int64_t keys = 0;                                       // W
  int64_t heads = 0;                                      // H
  int64_t head_width = 0;                                 // d
  int64_t offsets = 0;                                    // R, rows of the table
  int64_t first = 0;                                      // place of key 0; query i is at place i
  int64_t least = 1;                                      // offset of the table's row 0
  mneme::ElementType element = mneme::ElementType::kF32;  // of q, k, v and table
  double scale = 1.0;

  bool is_f64() const { return element == mneme::ElementType::kF64; }
  // Elements of q; of k and of v.
  int64_t query_elements() const { return lanes * queries * heads * head_width; }
  int64_t key_elements() const { return lanes * keys * heads * head_width; }
};

// Contiguous, row-major; null where an extent is 0. "S": f64 with elements of f64, else f32.
struct LookAheadBuffers {
  const void* q = nullptr;              // [B,M,H,d]
  const void* k = nullptr;              // [B,W,H,d]
  const void* v = nullptr;              // [B,W,H,d]
  const void* table = nullptr;          // [H,R,d]
  const void* content_bias = nullptr;   // [H,d] S
  const void* position_bias = nullptr;  // [H,d] S
  const uint8_t* valid = nullptr;       // [B,W]
  const void* carried_lse = nullptr;    // [B,M,H] S; forward only
  const void* carried = nullptr;        // [B,M,H,d] S; forward only
  void* context = nullptr;              // [B,M,H,d] S
  void* lse = nullptr;                  // [B,M,H] S
};

// A gradient that is not wanted is null; one that arrives null reads as zeros.
struct LookAheadGradients {
  const void* context = nullptr;  // [B,M,H,d] S
  const void* lse = nullptr;      // [B,M,H] S
  void* q = nullptr;              // [B,M,H,d]
  void* k = nullptr;              // [B,W,H,d]
  void* v = nullptr;              // [B,W,H,d]
  void* table = nullptr;          // [H,R,d]
  void* content_bias = nullptr;   // [H,d] S
  void* position_bias = nullptr;  // [H,d] S
};

// ---- CPU (kernels/cpu) --------------------------------------------------------------------------

inline constexpr int64_t kQueryTile = 24;     // queries that a CPU kernel works on together
inline constexpr int64_t kTurnedRows = 64;    // rows of the table that are turned as one piece
inline constexpr int64_t kSpareOffsets = 48;  // that may be read behind a table's last row

// What pieces share in the workspace, "S" being the type of the sums. A lane's queries are cut into
// `groups`. In the backward pass the groups of all lanes, lane by lane, are divided among `slices`
// of each head, so that a slice sums the table's and the biases' gradients over its groups.
struct LookAheadParts {
  int64_t groups = 1;
  int64_t slices = 1;
  void* turned = nullptr;      // [H,d,turned_columns(R + kSpareOffsets)] S: the table's columns
  void* rows = nullptr;        // [H,R,padded_columns(d)] S; backward only, and the rest
  void* table_sums = nullptr;  // [H,slices,R + kSpareOffsets,padded_columns(d)] S
  void* bias_sums = nullptr;   // [H,slices,2,padded_columns(d)] S, content then position
  void* key_sums = nullptr;    // [B,H,groups,2,W,d] S, keys then values; null with one group
};

// The functions of one instruction set. Any thread may work on a piece, alone. `scratch` has at
// least so many bytes as *_scratch says, at any address; it belongs to one piece at a time and
// needs no initial value.
struct LookAheadKernels {
  // kTurnedRows rows of one head's table to parts.turned and parts.rows (unless null); piece =
  // head * ceil(R / kTurnedRows) + chunk.
  void (*turn_table)(const LookAheadShape&, const LookAheadBuffers&, const LookAheadParts&,
                     int64_t piece);

  // piece = (lane * H + head) * groups + group; after all of turn_table.
  uint64_t (*attend_scratch)(const LookAheadShape&);
  void (*attend)(const LookAheadShape&, const LookAheadBuffers&, const LookAheadParts&,
                 void* scratch, int64_t piece);
  MNEME_DECLARE_KERNELS(LookAheadKernels);
};

struct LookAheadBackwardKernels {
  // piece = head * slices + slice; after all of turn_table. Leaves table_sums, bias_sums and
  // key_sums.
  uint64_t (*differentiate_scratch)(const LookAheadShape&);
  void (*differentiate)(const LookAheadShape&, const LookAheadBuffers&, const LookAheadGradients&,
                        const LookAheadParts&, void* scratch, int64_t piece);

  // Sums over slices or groups, in their order: of a row h * R + r of the table's gradient, of a
  // head's biases, of a head's keys and values (piece = lane * H + head).
  void (*sum_table)(const LookAheadShape&, const LookAheadGradients&, const LookAheadParts&,
                    int64_t row);
  void (*sum_biases)(const LookAheadShape&, const LookAheadGradients&, const LookAheadParts&,
                     int64_t head);
  void (*sum_keys)(const LookAheadShape&, const LookAheadGradients&, const LookAheadParts&,
                   int64_t piece);
  MNEME_DECLARE_KERNELS(LookAheadBackwardKernels);
};

// ---- the kernel ---------------------------------------------------------------------------------

// Inputs    0 q [B,M,H,d]   1 k [B,W,H,d]   2 v [B,W,H,d]   3 table [H,R,d], all f32, f64 or bf16
//           4 content_bias u [H,d]   5 position_bias w [H,d]
//           6 valid [B,W] bool: keys that exist; others may hold anything
//           7 lse s [B,M,H], -infinity where nothing is carried (C may hold anything there, unless
//           no key is attended either)
//           8 context C [B,M,H,d]
//           4, 5, 7 and 8 are f64 with inputs of f64, else f32.
// Integers  0 first: query i is at place i, key c at place first + c
//           1 least: a query attends the keys that are at least this number of places after it;
//           1 = strictly later ones, a negative number admits earlier ones. Row r of the table
//           belongs to offset least + r.
// Real      0 scale of the scores
// Outputs   0 context C' [B,M,H,d]   1 lse s' [B,M,H], both of the type of C
//
//   A_ic = scale ((q_i + u) . k_c + (q_i + w) . table[first + c - i - least])
//   s'   = log(exp(s) + sum_c exp(A_ic))      C' = exp(s - s') C + sum_c exp(A_ic - s') v_c
//
// [LaMemo, eq. 7 to 11]: a softmax over the keys and one virtual key of logit s and value C is the
// paper's interpolation, exactly and without its epsilon: with s_a the log-sum-exp and C_a the
// context of the keys alone, C' = alpha C + (1 - alpha) C_a, alpha = e^s / (e^s + e^s_a). A row
// that attends no key keeps C and s as they are; there is no gradient then.
//
// s and C are constants. The backward pass recomputes the scores and needs s' and C' alone:
//
//   P        = exp(A - s')
//   dA_ic    = P_ic (dC'_i . v_c - dC'_i . C'_i + ds'_i)
//   dv_c     = sum_i P_ic dC'_i
//   dk_c     = scale sum_i dA_ic (q_i + u)
//   dtable_r = scale sum_i dA_i(i + least + r - first) (q_i + w), over the lanes
//   du, dw, dq: sums of scale dA_ic k_c and of scale dA_ic table_r
//
// Nothing of size [M,W] or [M,R] exists but a tile; key blocks that a tile of queries does not
// attend are skipped. Flops where every query attends every key: 6 B H M W d forward, 16 B H M W d
// backward. Sums are f32, with inputs of f64 in f64. Deterministic; on the CPU the same bits for
// any number of threads. A NaN in a lane and head reaches no other lane or head but through the
// gradients of table, u and w.
class LookAhead {
 public:
  static constexpr const char* kName = "look_ahead";
  static constexpr uint32_t kInputs = 9;
  static constexpr uint32_t kOutputs = 2;
  static constexpr uint64_t kKeepInputs = 0x7F;       // all but what is carried
  static constexpr uint64_t kConstantInputs = 0x180;  // what is carried
  static constexpr uint64_t kKeepOutputs = 3;
  static constexpr uint32_t kFlags = mneme::kCapturable | mneme::kDeterministic;

  // `set`: the CPU's instruction set.
  explicit LookAhead(mneme::cpu::InstructionSet set = mneme::cpu::fastest_instruction_set());

  // Errors: Failure(MNEME_E_SHAPE | MNEME_E_DTYPE | MNEME_E_INVALID_ARGUMENT) naming the input.
  void infer(mneme::KernelPlan& plan) const;
  void forward_cpu(const mneme::KernelCall& call) const;
  void backward_cpu(const mneme::KernelCall& call) const;
#ifdef MNEME_HAS_CUDA
  void forward_cuda(const mneme::KernelCall& call) const;
  void backward_cuda(const mneme::KernelCall& call) const;
#endif

 private:
  static LookAheadShape shape_of(const mneme::KernelCall& call);
  static LookAheadBuffers buffers_of(const mneme::KernelCall& call);
  static LookAheadGradients gradients_of(const mneme::KernelCall& call);
#ifdef MNEME_HAS_CUDA
  // Checks the buffers that both passes read, and those that one of them writes. Errors:
  // Failure(MNEME_E_CUDA).
  static void check_cuda_buffers(const mneme::KernelCall& call);
  // Bytes of the backward pass; the forward pass needs none.
  static uint64_t cuda_workspace(const LookAheadShape& shape);
#else
  static uint64_t cuda_workspace(const LookAheadShape&) { return 0; }
#endif

  const LookAheadKernels* forward_;
  const LookAheadBackwardKernels* backward_;
};

}  // namespace lamemo
