// Small tensors of every segment or step, on their way to the device and back.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>

#include <optional>
#include <vector>

namespace mneme::tensor {

// `values` on `device`, of the same shape and dtype: the tensor itself when it is there. A copy to
// a CUDA device is taken of the values as they are now and queued on the current stream, from
// pinned memory: nothing waits for the device, as it does where `Tensor::to` copies from pageable
// memory.
[[nodiscard]] at::Tensor to_device(const at::Tensor& values, c10::Device device);

// Numbers that come to the CPU while a device goes on with what is queued behind them.
class SentNumbers {
 public:
  SentNumbers() = default;
  // f64 [n], with the values that they have behind what is queued on the current stream so far.
  explicit SentNumbers(const at::Tensor& numbers);
  // Waits for them alone.
  [[nodiscard]] std::vector<double> read() const;

 private:
  at::Tensor host_;
  std::optional<c10::Event> is_sent_;  // from a CUDA device
};

}  // namespace mneme::tensor
