#include "host/memory/abi/kernel_view.hpp"

#include <ATen/dlpack.h>

#include <algorithm>
#include <cstddef>

#include "host/tensor/torch.hpp"

namespace mneme::memory {
namespace {

static_assert(sizeof(mneme_view) == sizeof(DLTensor) &&
                  offsetof(mneme_view, ndim) == offsetof(DLTensor, ndim) &&
                  offsetof(mneme_view, dtype_code) == offsetof(DLTensor, dtype) &&
                  offsetof(mneme_view, shape) == offsetof(DLTensor, shape) &&
                  offsetof(mneme_view, strides) == offsetof(DLTensor, strides) &&
                  offsetof(mneme_view, byte_offset) == offsetof(DLTensor, byte_offset),
              "mneme_view must have DLTensor's layout");

// Numbers of DLDataTypeCode.
uint8_t type_code(at::ScalarType type) {
  if (type == at::kBool) return kDLBool;
  if (type == at::kBFloat16) return kDLBfloat;
  return at::isFloatingType(type) ? kDLFloat : kDLInt;
}

}  // namespace

mneme_view view_of(const at::Tensor& tensor, std::vector<int64_t>& shape,
                   std::vector<int64_t>& strides) {
  shape.assign(tensor.sizes().begin(), tensor.sizes().end());
  strides.assign(shape.size(), 1);
  int64_t step = 1;
  for (std::size_t i = shape.size();
       i-- > 0;) {  // a contiguous tensor's strides, extents of 1 in normal form
    strides[i] = step;
    step *= std::max<int64_t>(shape[i], 1);
  }
  mneme_view view{};
  view.data = tensor.numel() == 0 || tensor.is_meta() ? nullptr : tensor.data_ptr();
  view.device_type = tensor.is_cuda() ? MNEME_DEVICE_CUDA : MNEME_DEVICE_CPU;
  view.device_id = tensor.is_cuda() ? tensor.device().index() : 0;
  view.ndim = static_cast<int32_t>(shape.size());
  view.dtype_lanes = 1;
  view.dtype_bits = static_cast<uint8_t>(8 * tensor.element_size());
  view.dtype_code = type_code(tensor.scalar_type());
  view.shape = shape.empty() ? nullptr : shape.data();
  view.strides = strides.empty() ? nullptr : strides.data();
  return view;
}

Views::Views(const std::vector<at::Tensor>& tensors) {
  for (const at::Tensor& tensor : tensors) add(tensor);
}

void Views::add(const at::Tensor& tensor) {
  auto& shape = arrays_.emplace_back();
  auto& strides = arrays_.emplace_back();
  views_.push_back(view_of(tensor, shape, strides));
}

void Views::add_or_absent(const at::Tensor& tensor, const at::Tensor& meta) {
  add(tensor.defined() ? tensor : meta);
  if (!tensor.defined()) views_.back().data = nullptr;
}

}  // namespace mneme::memory
