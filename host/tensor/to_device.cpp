#include "host/tensor/to_device.hpp"

#include <c10/core/impl/VirtualGuardImpl.h>

#include "host/tensor/torch.hpp"

namespace mneme::tensor {

at::Tensor to_device(const at::Tensor& values, c10::Device device) {
  if (!device.is_cuda() || !values.is_cpu()) return values.to(device);
  return values.pin_memory().to(device, /*non_blocking=*/true);
}

SentNumbers::SentNumbers(const at::Tensor& numbers) {
  const c10::Device device = numbers.device();
  if (!device.is_cuda()) {
    host_ = numbers.to(at::kCPU).contiguous();
    return;
  }
  host_ = at::empty(numbers.sizes(), at::TensorOptions().dtype(at::kDouble).pinned_memory(true));
  host_.copy_(numbers, /*non_blocking=*/true);
  is_sent_.emplace(device.type());
  is_sent_->record(c10::impl::VirtualGuardImpl(device.type()).getStream(device));
}

std::vector<double> SentNumbers::read() const {
  if (is_sent_) is_sent_->synchronize();
  const double* const first = host_.const_data_ptr<double>();
  return {first, first + host_.numel()};
}

}  // namespace mneme::tensor
