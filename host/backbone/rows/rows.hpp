// What surrounds the matrix products of a layer, in one pass over its rows each, by the host's
// kernels (host/kernel/rows.hpp): used on CUDA. Elsewhere LibTorch's operations compute the same.
#pragma once

#include <ATen/core/Tensor.h>

#include "host/backbone/rows/dropout.hpp"
#include "host/backbone/rows/norm.hpp"
#include "host/kernel/rows.hpp"
#include "host/tensor/host_kernels.hpp"

namespace mneme::backbone {

using tensor::check_rows;
using tensor::row_element;
using tensor::row_kernels;

// Whether a kernel takes rows of both types: f64 goes with f64 alone, and f16 with none.
bool are_taken_together(at::ScalarType residual, at::ScalarType other);

// drop(f(x + bias)), [.., width]: x [.., width] or, for gated ones, [.., 2 width]; bias may be
// undefined. x is nobody else's: without gradient it may be overwritten. Differentiable once.
at::Tensor activated_rows(const kernel::RowKernels& kernels, const at::Tensor& x,
                          const at::Tensor& bias, kernel::Activation function,
                          const DrawnMask& dropout);

struct AddedRows {
  at::Tensor sum;     // of the dtype of h, or of x where there is no h; undefined when not wanted
  at::Tensor normed;  // of dtype `result`; with a norm
};

// The norm that follows a sum, where it may be computed with it.
struct FollowingNorm {
  const RowNorm* norm = nullptr;  // null = none
  at::ScalarType result = at::kFloat;
};

// h + drop(x + bias), [.., width], and its norm.
struct RowSum {
  at::Tensor h{};     // undefined = 0
  at::Tensor x{};     // undefined = 0, and the sum is h
  at::Tensor bias{};  // [width]; undefined = 0
  DrawnMask dropout{};
  FollowingNorm following{};
  bool wants_sum = true;
};

// Differentiable once.
AddedRows added_rows(const kernel::RowKernels& kernels, const RowSum& args);

}  // namespace mneme::backbone
