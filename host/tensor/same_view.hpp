// Whether two tensors are the same elements of the same memory.
#pragma once

#include <ATen/core/Tensor.h>

namespace mneme::tensor {

// No values are read: tensors in different memory are different, whatever they hold.
inline bool is_same_view(const at::Tensor& a, const at::Tensor& b) {
  if (!a.defined() || !b.defined()) return a.defined() == b.defined();
  return a.is_same(b) ||
         (a.const_data_ptr() == b.const_data_ptr() && a.scalar_type() == b.scalar_type() &&
          a.sizes() == b.sizes() && a.strides() == b.strides());
}

}  // namespace mneme::tensor
