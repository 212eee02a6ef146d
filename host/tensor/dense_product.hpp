// Products of large matrices in f32 on the CPU, by oneDNN where that is faster: MKL keeps to AVX2
// on processors that are not Intel's, which is half of what AVX-512 reaches there (measured on an
// AMD EPYC: 104 and 205 GFLOPS a core).
#pragma once

#include <ATen/core/Tensor.h>

namespace mneme::tensor {

// x w^T + bias with x [..., in], w [out, in], bias [out] or undefined; at::linear otherwise.
// Differentiable any number of times.
at::Tensor dense_linear(const at::Tensor& x, const at::Tensor& w, const at::Tensor& bias);

// a b as at::matmul. Two matrices, or one that is expanded over a batch of others; whatever else is
// left to LibTorch.
at::Tensor dense_matmul(const at::Tensor& a, const at::Tensor& b);

}  // namespace mneme::tensor
