// The log-sum-exp and the largest number of each row.
#pragma once

#include <ATen/core/Tensor.h>

namespace mneme::tensor {

enum class RowParts { kLogSum, kBest, kBoth };

// Undefined where not asked for.
struct RowSummary {
  at::Tensor log_sum;  // [n] of the dtype of the rows
  at::Tensor highest;  // [n]: the largest; a NaN counts as larger than anything
  at::Tensor best;     // [n] i64: its first place
};

// Of x [n,m] f32 or f64, m at least 1. On the CPU without gradient by the host's own kernel
// (host/kernel/logits.hpp), otherwise by LibTorch's operations.
[[nodiscard]] RowSummary summarize_rows(const at::Tensor& x, RowParts parts);

}  // namespace mneme::tensor
