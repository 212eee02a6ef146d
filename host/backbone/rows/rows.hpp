// What surrounds the matrix products of a layer, in one pass over its rows each, by the host's
// kernels (host/kernel/rows.hpp): used on CUDA. Elsewhere LibTorch's operations compute the same.
#pragma once

#include <ATen/core/Tensor.h>

#include "host/backbone/rows/dropout.hpp"
#include "host/backbone/rows/norm.hpp"
#include "host/kernel/rows.hpp"

namespace mneme::backbone {

// The kernels for rows [.., width] and their norms on the device of `rows`; null where LibTorch's
// operations are used: on the CPU, and for wider rows than kernel::kMostRowWidth.
const kernel::RowKernels* row_kernels(const at::Tensor& rows);

// Of f64, f32 or bf16.
kernel::Element row_element(at::ScalarType type);

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

// Errors: Error(kDevice) when `failed`, which a kernel returned, is not null.
void check_rows(const char* failed);

}  // namespace mneme::backbone
