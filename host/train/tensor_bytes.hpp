// Tensors to and from safetensors files.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "host/base/safetensors.hpp"

namespace mneme::train {

// Adds a copy of the tensor's values. Error (kRun) for dtypes that the format lacks.
void add_tensor(SafetensorsWriter& writer, const std::string& name, const at::Tensor& tensor);
// A copy of the view's values on the CPU.
[[nodiscard]] at::Tensor to_tensor(const TensorView& view);
[[nodiscard]] DType to_dtype(at::ScalarType type);

}  // namespace mneme::train
