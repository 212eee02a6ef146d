// Tensors as kernels see them: mneme_view, in the normal form that mneme/abi.h promises.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <deque>
#include <vector>

#include "mneme/abi.h"

namespace mneme::memory {

// Borrows the memory of `tensor`, which must be contiguous; data is NULL for a tensor without
// elements or on the meta device. The view points into `shape` and `strides`, which are filled.
mneme_view view_of(const at::Tensor& tensor, std::vector<int64_t>& shape,
                   std::vector<int64_t>& strides);

// Views with the arrays that they point to. The tensors must outlive them.
class Views {
 public:
  explicit Views(const std::vector<at::Tensor>& tensors);
  void add(const at::Tensor& tensor);
  // A view of `meta`'s shape and dtype; without data when `tensor` is undefined.
  void add_or_absent(const at::Tensor& tensor, const at::Tensor& meta);
  const mneme_view* data() const { return views_.data(); }

 private:
  std::deque<std::vector<int64_t>> arrays_;
  std::vector<mneme_view> views_;
};

}  // namespace mneme::memory
