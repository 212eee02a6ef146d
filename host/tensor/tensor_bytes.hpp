// Tensors to and from safetensors files.
#pragma once

#include <ATen/core/Tensor.h>

#include "host/base/file/safetensors.hpp"

namespace mneme::tensor {

// A copy of the view's values on the CPU.
[[nodiscard]] at::Tensor to_tensor(const TensorView& view);
// Error (kRun) for dtypes that the format lacks.
[[nodiscard]] DType to_dtype(at::ScalarType type);

}  // namespace mneme::tensor
