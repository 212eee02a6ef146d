// Matrix products of the backbone in the compute dtype.
#pragma once

#include <ATen/core/Tensor.h>

namespace mneme::backbone {

// x [..,n] times weight [m,n] transposed, plus bias [m] when defined: [..,m]. Inputs are cast to
// `compute`, in which the product runs and the result stays.
at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                  at::ScalarType compute);

}  // namespace mneme::backbone
