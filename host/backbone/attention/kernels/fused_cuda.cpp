#include "host/backbone/attention/kernels/fused_cuda.hpp"

#include <c10/core/DeviceGuard.h>

#include <utility>

#include "host/base/error.hpp"
#include "host/tensor/device.hpp"

namespace mneme::backbone {
namespace {

at::Tensor workspace_of(std::uint64_t bytes, at::Device device) {
  return at::empty({static_cast<std::int64_t>(bytes)},
                   at::TensorOptions().dtype(at::kByte).device(device));
}

void check(const char* failed) {
  if (failed == nullptr) return;
  throw_device(
      {.where = "attention on CUDA",
       .failed = failed,
       .hint = "--set model.attention_kernel=operations computes with LibTorch's operations"});
}

void attend_on_cuda(const kernel::AttentionShape& shape, const kernel::AttentionInputs& inputs,
                    const kernel::AttentionResults& results, at::Device device) {
  const c10::DeviceGuard current(device);
  const at::Tensor workspace = workspace_of(kernel::CudaAttention::workspace(shape), device);
  check(kernel::CudaAttention::attend(shape, inputs, results, workspace.data_ptr(),
                                      tensor::stream_of(device)));
}

void differentiate_on_cuda(const kernel::AttentionShape& shape,
                           const kernel::AttentionInputs& inputs, const kernel::AttentionPass& pass,
                           const kernel::CudaAttentionGradients& gradients, at::Device device) {
  const c10::DeviceGuard current(device);
  const at::Tensor workspace =
      workspace_of(kernel::CudaAttention::backward_workspace(shape), device);
  check(kernel::CudaAttention::backward(shape, inputs, pass, gradients, workspace.data_ptr(),
                                        tensor::stream_of(device)));
}

constexpr DeviceAttention kCudaAttention = {attend_on_cuda, differentiate_on_cuda};

thread_local const DeviceAttention* given_attention = nullptr;

}  // namespace

const DeviceAttention* device_attention(at::Device device) {
  if (device.is_cuda()) return &kCudaAttention;
  return device.is_cpu() ? given_attention : nullptr;
}

WithDeviceAttention::WithDeviceAttention(const DeviceAttention& given)
    : before_(std::exchange(given_attention, &given)) {}
WithDeviceAttention::~WithDeviceAttention() { given_attention = before_; }

QueryGradients with_table(const at::Tensor& through_keys, const at::Tensor& positions,
                          const at::Tensor& q, const at::Tensor& table,
                          const at::Tensor& position_bias, bool wants_biases) {
  QueryGradients out;
  out.q = through_keys;
  if (wants_biases) out.content_bias = through_keys.sum(at::IntArrayRef{0, 1}, false, at::kFloat);
  if (!table.defined()) return out;
  const std::int64_t heads = q.size(2), width = q.size(3), rows = positions.size(3),
                     queries = q.size(0) * q.size(1);  // of a head
  const auto by_head = [&](const at::Tensor& of_queries) {
    return of_queries.permute({2, 0, 1, 3}).reshape({heads, queries, width});
  };
  const at::Tensor g = positions.view({heads, queries, rows});
  const at::Tensor through_table = at::bmm(g, table);
  const at::Tensor sent = position_bias.defined() ? (q + position_bias).to(q.scalar_type())
                                                  : q;  // as the kernel rounds
  out.q =
      through_keys + through_table.view({heads, q.size(0), q.size(1), width}).permute({1, 2, 0, 3});
  out.table = at::bmm(g.transpose(1, 2), by_head(sent));
  if (wants_biases) out.position_bias = through_table.sum(at::IntArrayRef{1}, false, at::kFloat);
  return out;
}

}  // namespace mneme::backbone
