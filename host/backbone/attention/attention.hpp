// Attention with relative positions as one differentiable operation with a hand-written backward
// pass.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <limits>

#include "host/backbone/rows/dropout.hpp"

namespace mneme::backbone {

// The score of a key that a query does not see.
inline constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

// One call. Scores are s_ij = scale * ((q_i + u) . k_j + (q_i + w) . table[T-1-i+j']) + mask_ij +
// bias_ij with j' = j - first_placed; the second term exists for j >= first_placed only: there,
// memory rows by place, riders and tokens are in this order, one place apart [Transformer-XL,
// appendix B: the shift is index arithmetic here]. `Scores` below is [H,B,T,K]. Keys and values may
// have fewer heads, G: head h then uses those of h / (H / G).
struct AttentionArgs {
  at::Tensor q;                   // [B,T,H,d], any strides; compute dtype (f64, f32, bf16)
  at::Tensor k, v;                // [G,B,K,d] contiguous, G divides H; compute dtype
  at::Tensor table;               // [H,W,d], W > K - first_placed; undefined = no position term
  std::int64_t first_placed = 0;  // columns before it have no position term
  at::Tensor content_bias;        // u [H,d]; undefined = 0
  at::Tensor position_bias;       // w [H,d]; undefined = 0
  at::Tensor mask;  // broadcasts to Scores from the right, score dtype, no gradient; -inf = absent
  at::Tensor bias;  // broadcasts to Scores (4 dimensions), differentiable; -inf = absent
  at::Tensor virtual_logit;  // [H,B,T]: one more key a query with this logit ...
  at::Tensor virtual_value;  // [H,B,T,d]: ... and this value
  double scale = 1.0;
  // s becomes softcap * tanh(s / softcap) before mask and bias; 0 = none. Not with a table.
  double softcap = 0.0;
  bool wants_lse = false;
  bool may_be_empty = false;  // a query may have no key at all: z = 0, lse = -inf, no gradient
  double dropout = 0.0;       // on probabilities, not renormalised; noise is needed when > 0
  Noise* noise = nullptr;
  bool wants_mass = false;
  at::Tensor query_valid;   // [B,T] bool: queries that count in the mass; undefined = all
  bool is_of_hook = false;  // a hook asked for it (LayerServices::attention)
  // Pairs of a query and a column that lengths and a window hide in every lane and head; for counts
  // of operations.
  std::int64_t hidden_pairs = 0;
  // Called with the probabilities [H,B,T,K] in score dtype, without gradient, before dropout; they
  // are freed afterwards.
  std::function<void(const at::Tensor& p)> on_probabilities = nullptr;
};

struct AttentionOutput {
  at::Tensor z;     // [B,T,H,d], compute dtype, or the virtual value's
  at::Tensor lse;   // [B,H,T], score dtype (f32 or f64), before dropout; when wants_lse
  at::Tensor mass;  // [B,K] score dtype, no gradient; when wants_mass
};

// Under this name LibTorch's profilers see both passes of attend(), unless a hook asked for it. Its
// input is the number of operations of each of its products that hidden pairs ask for.
inline constexpr const char* kAttentionScope = "attention of a layer";

// Runs attention. Gradients flow from z and lse to q, k, v, table, both biases, bias and the
// virtual key. Not twice differentiable. Deterministic on CPU.
AttentionOutput attend(const AttentionArgs& args);

// cap * tanh(s / cap), differentiable; s itself where cap is 0.
at::Tensor softcapped(const at::Tensor& s, double cap);

// Dtype of scores, denominators and masks for a compute dtype: f64 stays, everything else is f32.
at::ScalarType score_dtype(at::ScalarType compute);

}  // namespace mneme::backbone
