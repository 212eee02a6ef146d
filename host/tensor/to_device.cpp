#include "host/tensor/to_device.hpp"

#include "host/tensor/torch.hpp"

namespace mneme::tensor {

at::Tensor to_device(const at::Tensor& values, c10::Device device) {
  if (!device.is_cuda() || !values.is_cpu()) return values.to(device);
  return values.pin_memory().to(device, /*non_blocking=*/true);
}

}  // namespace mneme::tensor
