// The look-ahead attention of memory rows, merged with what they have attended before.
#pragma once

#include "look_ahead_args.hpp"
#include "mneme/cpp/kernel.hpp"

namespace lamemo {

namespace cpu {
struct KernelTable;
}  // namespace cpu

// Inputs    0 q [B,M,H,d]   1 k [B,W,H,d]   2 v [B,W,H,d]   3 table [H,R,d], all f32, f64 or bf16
//           4 content_bias u [H,d]   5 position_bias w [H,d]
//           6 valid [B,W] bool: keys that exist; others may hold anything
//           7 lse s [B,M,H], -infinity where nothing is carried (C may hold anything there, unless
//           no key is attended either)   8 context C [B,M,H,d]; 4, 5, 7 and 8 f64 with inputs of
//           f64, else f32
// Integers  0 first: query i stands at place i, key c at place first + c   1 least: a query attends
//           the keys that stand at least so many places after it; 1 = strictly later ones, a
//           negative number admits earlier ones. Row r of the table belongs to offset least + r.
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
//   P = exp(A - s')   dA_ic = P_ic (dC'_i . v_c - dC'_i . C'_i + ds'_i)   dv_c = sum_i P_ic dC'_i
//   dk_c = scale sum_i dA_ic (q_i + u)        dtable_r = scale sum_i dA_i(i + least + r - first)
//   du, dw, dq: sums of scale dA_ic k_c and of scale dA_ic table_r     (q_i + w), over the lanes
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
  static constexpr uint64_t kKeepInputs = 0x7F;  // all but what is carried
  static constexpr uint64_t kKeepOutputs = 3;
  static constexpr uint32_t kFlags = mneme::kCapturable | mneme::kDeterministic;

  // `table`: the CPU's instruction set, the best one when null.
  explicit LookAhead(const cpu::KernelTable* table = nullptr);

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

}  // namespace lamemo
