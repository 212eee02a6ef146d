// Small tensors that the host makes anew in every segment or step, on their way to the device.
#pragma once

#include <ATen/core/Tensor.h>

namespace mneme::tensor {

// `values` on `device`, of the same shape and dtype: the tensor itself when it is there. A copy to
// a CUDA device is taken of the values as they are now and queued on the current stream, from
// pinned memory: nothing waits for the device, as it does where `Tensor::to` copies from pageable
// memory.
[[nodiscard]] at::Tensor to_device(const at::Tensor& values, c10::Device device);

}  // namespace mneme::tensor
