// Products of few rows with a weight by the host's own kernel (host/kernel/linear.hpp).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace mneme::tensor {

// Whether few_rows_linear is the faster way: f32 on the CPU, without gradient, few rows.
[[nodiscard]] bool suits_few_rows(const at::Tensor& x, const at::Tensor& w);

// x w^T + bias with x [n,in], w [out,in] whose rows lie densely, bias [out] or undefined, all f32
// on the CPU. No gradient. Deterministic: a row's result depends on the number of rows, but not on
// the number of threads.
at::Tensor few_rows_linear(const at::Tensor& x, const at::Tensor& w, const at::Tensor& bias);

}  // namespace mneme::tensor
