#include "host/tensor/host_kernels.hpp"

#include <cstdlib>
#include <string_view>
#include <utility>

#include "host/base/error.hpp"
#include "host/kernel/cuda/attention.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::tensor {
namespace {

thread_local bool is_without_kernels = false;
thread_local const kernel::RowKernels* given_row_kernels = nullptr;

constexpr const char* kCudaAttention = "MNEME_CUDA_ATTENTION";

}  // namespace

bool has_host_kernels(const at::Tensor& x) { return x.is_cpu() && !is_without_kernels; }

bool uses_host_kernels(const at::Tensor& x) {
  return has_host_kernels(x) && !at::GradMode::is_enabled();
}

const kernel::CrossEntropyKernels* cross_entropy_kernels(const at::Tensor& x) {
  const bool computes = x.is_cuda() && !is_without_kernels;
  return computes ? kernel::CrossEntropyKernels::for_cuda() : nullptr;
}

bool has_cuda_attention(const at::Tensor& x) {
  static const bool is_wanted = wants_cuda_attention();
  return x.is_cuda() && is_wanted && !is_without_kernels;
}

bool wants_cuda_attention() {
  const char* const value = std::getenv(kCudaAttention);
  const std::string_view wanted = value == nullptr ? "" : value;
  if (wanted.empty() || wanted == "plain") return false;
  if (wanted != "fused") {
    throw_usage({.where = kCudaAttention,
                 .failed = "unknown value",
                 .expected = "\"fused\" or \"plain\"",
                 .got = str('"', wanted, '"')});
  }
  if (!kernel::CudaAttention::is_built()) {
    throw_usage({.where = kCudaAttention,
                 .failed = "the program was built without CUDA sources",
                 .expected = "\"plain\", or a build where nvcc is found (MNEME_CUDA=ON)",
                 .got = "\"fused\""});
  }
  return true;
}

WithoutHostKernels::WithoutHostKernels() : before_(std::exchange(is_without_kernels, true)) {}
WithoutHostKernels::~WithoutHostKernels() { is_without_kernels = before_; }

const kernel::RowKernels* row_kernels(at::Device device) {
  if (is_without_kernels) return nullptr;
  if (device.is_cuda()) return kernel::cuda_row_kernels();
  return device.is_cpu() ? given_row_kernels : nullptr;
}

WithRowKernels::WithRowKernels(const kernel::RowKernels& kernels)
    : before_(std::exchange(given_row_kernels, &kernels)) {}
WithRowKernels::~WithRowKernels() { given_row_kernels = before_; }

}  // namespace mneme::tensor
