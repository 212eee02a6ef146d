// Products of large matrices in f32 on the CPU, by oneDNN where that is faster: MKL uses only AVX2
// on processors that are not Intel's, half the speed of AVX-512 there (measured on an AMD EPYC: 104
// and 205 GFLOPS a core). Also whether a processor computes bf16 products fast.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <string>

#include "host/config/experiment.hpp"

namespace mneme::tensor {

// x w^T + bias with x [..., in], w [out, in], bias [out] or undefined; at::linear otherwise.
// Differentiable any number of times.
at::Tensor dense_linear(const at::Tensor& x, const at::Tensor& w, const at::Tensor& bias);

// The same by oneDNN, whatever the sizes: two matrices, f32 on the CPU. For comparisons.
at::Tensor onednn_linear(const at::Tensor& x, const at::Tensor& w, const at::Tensor& bias);

// a b as at::matmul. Serves two matrices, or one that is expanded over a batch of others; all else
// is left to LibTorch.
at::Tensor dense_matmul(const at::Tensor& a, const at::Tensor& b);

// Whether the processor has instructions for bf16 products (AVX512_BF16, AMX_BF16); true on other
// architectures than x86-64, where this is not known.
[[nodiscard]] bool has_bf16_units();

// Time of a bf16 product over that of the same product in f32, both on the CPU: 128 rows, 512
// inputs, 512 outputs; the fastest of a few of each.
[[nodiscard]] double bf16_time_ratio();

// Floating-point operations a second of a product of two square matrices in this precision, the
// best of a few: what others take of the device meanwhile is missing in it. 512 rows on the CPU,
// 4,096 on a GPU, 2,048 in f64 there; some milliseconds.
[[nodiscard]] double product_rate(c10::Device device, config::Precision precision);

// Bytes a second that a copy within the device's memory reads and writes, the best of a few: 128 MiB
// on the CPU, 256 on a GPU, which no cache holds.
[[nodiscard]] double copy_rate(c10::Device device);

// Whether to warn of a model that computes in this precision on this device, which has instructions
// for bf16 or not, and the warning; of a GPU without a measured ratio.
[[nodiscard]] bool is_slow_bf16(config::Precision precision, c10::Device device, bool has_units);
[[nodiscard]] std::string slow_bf16_text(double time_ratio);
[[nodiscard]] std::string slow_bf16_text_of_gpu(std::int64_t capability);

}  // namespace mneme::tensor
