// A segment's attention by the host's own kernel (host/kernel/attention.hpp): it reads keys and
// values where they lie and masks by rule, and nothing of the size of the scores is stored.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "host/backbone/attention/attention.hpp"

namespace mneme::backbone {

// Rows that attention reads in one piece.
struct KeyPiece {
  at::Tensor k, v;  // [B,m,G,d], a row's elements side by side
  // All lanes have the first one's rows (OpenLayer::share), and no mask or bias hides them.
  bool is_shared = false;
};

// Keys and values of all pieces, [G,B,sum m,d]: rows of a head and lane side by side.
std::pair<at::Tensor, at::Tensor> joined_pieces(const std::vector<KeyPiece>& pieces);

// Which columns a query sees: those without places, and of the others (the last K - first_placed)
// its own and those before it. MaskCache::causal and valid_columns say the same as tensors.
struct ColumnRule {
  std::int64_t window = 0;                      // distances 0 .. window-1; 0 = all
  const std::vector<double>* slopes = nullptr;  // of ALiBi, a head each; null = none
  // Distances above it count as it, and the table's rows of them are equal; 0 = off.
  std::int64_t clamp = 0;
  at::Tensor valid{};  // [B,K] bool; undefined = all
};

// Whether a training on the CPU in this compute dtype uses attend_fused: in bf16 only on processors
// without bf16 products, because the backward pass computes in f32.
[[nodiscard]] bool trains_fused(at::ScalarType compute);

// Attention over `pieces`, in this order, for args without k, v and mask that choose_attention
// gives to AttentionPath::kHost. Gradients flow from z and lse to q, keys, values, table and
// position biases. A query without keys has z = 0 and lse = -inf. Dropout has the masks that attend()
// draws, drawn anew in the backward pass. Not twice differentiable. Deterministic, whatever the number of threads.
AttentionOutput attend_fused(const AttentionArgs& args, const std::vector<KeyPiece>& pieces,
                             const ColumnRule& rule);

// Projected positions [H,W,d] laid out as the kernel reads them: column by column, on CUDA in bf16
// row by row. attend_fused copies tables that are not.
at::Tensor laid_out_table(const at::Tensor& table);
// The room of such a table, [heads,rows,width] without values.
at::Tensor empty_table(std::int64_t heads, std::int64_t rows, std::int64_t width,
                       const at::TensorOptions& options);

}  // namespace mneme::backbone
