// The host's attention kernels for CUDA (host/kernel/cuda/attention.hpp), called with tensors.
#pragma once

#include <ATen/core/Tensor.h>

#include "host/kernel/attention.hpp"
#include "host/kernel/cuda/attention.hpp"

namespace mneme::backbone {

// On the device's stream. Error (kDevice): what the CUDA runtime says.
void attend_on_cuda(const kernel::AttentionShape& shape, const kernel::AttentionInputs& inputs,
                    const kernel::AttentionResults& results, at::Device device);

// The same of all gradients of a pass in bf16.
void differentiate_on_cuda(const kernel::AttentionShape& shape,
                           const kernel::AttentionInputs& inputs, const kernel::AttentionPass& pass,
                           const kernel::CudaAttentionGradients& gradients, at::Device device);

// Gradients into q [B,T,H,d] and, in f32, into the biases [H,d], and into the table [H,W,d].
struct QueryGradients {
  at::Tensor q, table, content_bias, position_bias;
};

// The products with a table that CudaAttentionGradients leaves to its caller, added to those with
// keys. positions [H,B,T,W]; table and position_bias [H,d] f32 may be undefined. On any device.
QueryGradients with_table(const at::Tensor& through_keys, const at::Tensor& positions,
                          const at::Tensor& q, const at::Tensor& table,
                          const at::Tensor& position_bias, bool wants_biases);

}  // namespace mneme::backbone
