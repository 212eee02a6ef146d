// The gradient of a weight that several losses make in pieces (linear_nll.hpp, SplitWeight).
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <cstdint>
#include <mutex>
#include <vector>

namespace mneme::backbone {

// It lives while a backward pass makes it. A piece is written by one loss.
class SharedGradient {
 public:
  explicit SharedGradient(at::IntArrayRef shape) : shape_(shape.vec()) {}

  // Rows [first, first + count), of any value before they are written.
  at::Tensor rows(std::int64_t first, std::int64_t count, const at::TensorOptions& options) {
    const std::lock_guard lock(mutex_);
    if (!whole_.defined()) whole_ = at::empty(shape_, options);
    return whole_.narrow(0, first, count);
  }
  // All of it: it is made anew for the next backward pass.
  at::Tensor take(const at::TensorOptions& options) {
    const std::lock_guard lock(mutex_);
    at::Tensor out = whole_.defined() ? whole_ : at::empty(shape_, options);
    whole_ = at::Tensor();
    return out;
  }

 private:
  std::vector<std::int64_t> shape_;
  std::mutex mutex_;  // backward passes of several devices have threads of their own
  at::Tensor whole_;
};

}  // namespace mneme::backbone
