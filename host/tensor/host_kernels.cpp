#include "host/tensor/host_kernels.hpp"

#include <utility>

#include "host/tensor/torch.hpp"

namespace mneme::tensor {
namespace {

thread_local bool is_without_kernels = false;

}  // namespace

bool has_host_kernels(const at::Tensor& x) { return x.is_cpu() && !is_without_kernels; }

bool uses_host_kernels(const at::Tensor& x) {
  return has_host_kernels(x) && !at::GradMode::is_enabled();
}

WithoutHostKernels::WithoutHostKernels() : before_(std::exchange(is_without_kernels, true)) {}
WithoutHostKernels::~WithoutHostKernels() { is_without_kernels = before_; }

}  // namespace mneme::tensor
