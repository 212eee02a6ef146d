// A kernel's gradients held to differences of its outputs.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <vector>

#include "host/validate/kernels/kernel_calls.hpp"

namespace mneme::validate {

// The sum of the outputs times fixed values.
[[nodiscard]] double weighed(const KernelCall& call, const std::vector<at::Tensor>& inputs,
                             const std::vector<at::Tensor>& weights);

// Compares d(sum)/d(input i) along a direction: `grad`, which backward gave for these weights, and
// differences. Where the input lies on a kink of the sum, the gradients on both sides of it are
// compared instead. Throws Failed with both slopes when they are not the same.
void check_direction(const KernelCall& call, std::size_t i, const at::Tensor& direction,
                     const std::vector<at::Tensor>& weights, const at::Tensor& grad);

}  // namespace mneme::validate
