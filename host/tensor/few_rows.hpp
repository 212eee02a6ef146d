// Products of few rows with a weight by the host's own kernel (host/kernel/linear.hpp).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace mneme::tensor {

// Whether few_rows_linear is the faster way: without gradient, on the CPU; f32 with few rows, or up
// to 512 short ones; bf16 with at most 4 rows.
[[nodiscard]] bool suits_few_rows(const at::Tensor& x, const at::Tensor& w);

// x w^T + bias with x [n,in], w [out,in] whose rows lie densely, bias [out] or undefined, all of
// one type, which is the result's, on the CPU; sums are in f32. No gradient. Deterministic: a row's
// result depends on the number of rows, but not on the number of threads.
at::Tensor few_rows_linear(const at::Tensor& x, const at::Tensor& w, const at::Tensor& bias);

}  // namespace mneme::tensor
