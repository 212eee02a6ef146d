#include "host/tensor/host_kernels.hpp"

#include <utility>

#include "host/tensor/torch.hpp"

namespace mneme::tensor {
namespace {

thread_local bool is_without_kernels = false;

}  // namespace

bool uses_host_kernels(const at::Tensor& x) {
  return x.is_cpu() && !at::GradMode::is_enabled() && !is_without_kernels;
}

WithoutHostKernels::WithoutHostKernels() : before_(std::exchange(is_without_kernels, true)) {}
WithoutHostKernels::~WithoutHostKernels() { is_without_kernels = before_; }

}  // namespace mneme::tensor
