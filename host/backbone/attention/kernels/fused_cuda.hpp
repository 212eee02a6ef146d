// The host's attention kernels for CUDA (host/kernel/cuda/attention.hpp), called with tensors.
#pragma once

#include <ATen/core/Tensor.h>

#include "host/kernel/attention.hpp"
#include "host/kernel/cuda/attention.hpp"

namespace mneme::backbone {

// What computes attention on a device, on its stream, with workspace of its own.
struct DeviceAttention {
  void (*attend)(const kernel::AttentionShape&, const kernel::AttentionInputs&,
                 const kernel::AttentionResults&, at::Device);
  // All gradients of a pass in bf16.
  void (*differentiate)(const kernel::AttentionShape&, const kernel::AttentionInputs&,
                        const kernel::AttentionPass&, const kernel::CudaAttentionGradients&,
                        at::Device);
};

// On CUDA the kernels, whose functions throw Error (kDevice) with what the CUDA runtime says; null on
// the CPU.
const DeviceAttention* device_attention(at::Device device);

// While one lives, device_attention() gives its thread this on the CPU: for tests.
class WithDeviceAttention {
 public:
  explicit WithDeviceAttention(const DeviceAttention& given);
  ~WithDeviceAttention();
  WithDeviceAttention(const WithDeviceAttention&) = delete;
  WithDeviceAttention& operator=(const WithDeviceAttention&) = delete;

 private:
  const DeviceAttention* before_;
};

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
