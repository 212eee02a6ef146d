#include "host/tensor/host_kernels.hpp"

#include <utility>

#include "host/base/error.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::tensor {
namespace {

thread_local bool is_without_kernels = false;
thread_local bool is_without_row_kernels = false;
thread_local const kernel::RowKernels* given_row_kernels = nullptr;
thread_local const kernel::SamplingKernels* given_sampling_kernels = nullptr;
thread_local const kernel::AdamKernels* given_adam_kernels = nullptr;
thread_local const kernel::CrossEntropyKernels* given_cross_entropy_kernels = nullptr;

}  // namespace

bool has_host_kernels() { return !is_without_kernels; }

bool uses_host_kernels(const at::Tensor& x) {
  return x.is_cpu() && has_host_kernels() && !at::GradMode::is_enabled();
}

bool has_cuda_sources() { return kernel::CrossEntropyKernels::for_cuda() != nullptr; }

const kernel::CrossEntropyKernels* cross_entropy_kernels(const at::Tensor& x) {
  if (is_without_kernels || is_without_row_kernels) return nullptr;
  if (x.is_cuda()) return kernel::CrossEntropyKernels::for_cuda();
  return x.is_cpu() ? given_cross_entropy_kernels : nullptr;
}

const kernel::SamplingKernels* sampling_kernels(at::Device device) {
  if (is_without_kernels) return nullptr;
  if (device.is_cuda()) return kernel::SamplingKernels::for_cuda();
  return device.is_cpu() ? given_sampling_kernels : nullptr;
}

WithoutHostKernels::WithoutHostKernels() : before_(std::exchange(is_without_kernels, true)) {}
WithoutHostKernels::~WithoutHostKernels() { is_without_kernels = before_; }

WithoutRowKernels::WithoutRowKernels(bool is_on)
    : before_(std::exchange(is_without_row_kernels, is_on || is_without_row_kernels)) {}
WithoutRowKernels::~WithoutRowKernels() { is_without_row_kernels = before_; }

const kernel::RowKernels* row_kernels(at::Device device) {
  if (is_without_kernels || is_without_row_kernels) return nullptr;
  if (device.is_cuda()) return kernel::cuda_row_kernels();
  return device.is_cpu() ? given_row_kernels : nullptr;
}

const kernel::RowKernels* row_kernels(const at::Tensor& rows) {
  const at::ScalarType type = rows.scalar_type();
  const bool has_kernels = type == at::kBFloat16 || type == at::kFloat || type == at::kDouble;
  if (!has_kernels || rows.size(-1) > kernel::kMostRowWidth) return nullptr;
  return row_kernels(rows.device());
}

kernel::Element row_element(at::ScalarType type) {
  return type == at::kDouble  ? kernel::Element::kF64
         : type == at::kFloat ? kernel::Element::kF32
                              : kernel::Element::kBF16;
}

void check_rows(const char* failed) {
  if (failed == nullptr) return;
  throw_device({.where = "activation, dropout, norm or rotary turn on CUDA", .failed = failed});
}

const kernel::AdamKernels* adam_kernels(at::Device device) {
  if (is_without_kernels || is_without_row_kernels) return nullptr;
  if (device.is_cuda()) return kernel::AdamKernels::for_cuda();
  return device.is_cpu() ? given_adam_kernels : nullptr;
}

WithRowKernels::WithRowKernels(const kernel::RowKernels& kernels,
                               const kernel::CrossEntropyKernels* cross_entropy,
                               const kernel::AdamKernels* adam)
    : rows_before_(std::exchange(given_row_kernels, &kernels)),
      cross_entropy_before_(std::exchange(given_cross_entropy_kernels, cross_entropy)),
      adam_before_(std::exchange(given_adam_kernels, adam)) {}
WithRowKernels::~WithRowKernels() {
  given_row_kernels = rows_before_;
  given_cross_entropy_kernels = cross_entropy_before_;
  given_adam_kernels = adam_before_;
}

WithSamplingKernels::WithSamplingKernels(const kernel::SamplingKernels& kernels)
    : before_(std::exchange(given_sampling_kernels, &kernels)) {}
WithSamplingKernels::~WithSamplingKernels() { given_sampling_kernels = before_; }

}  // namespace mneme::tensor
