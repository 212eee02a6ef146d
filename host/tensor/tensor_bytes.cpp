#include "host/tensor/tensor_bytes.hpp"

#include <array>
#include <cstring>
#include <utility>

#include "host/base/error.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::tensor {
namespace {

constexpr std::array kTypes = {
    std::pair{DType::F64, at::kDouble}, std::pair{DType::F32, at::kFloat},
    std::pair{DType::F16, at::kHalf},   std::pair{DType::BF16, at::kBFloat16},
    std::pair{DType::I64, at::kLong},   std::pair{DType::I32, at::kInt},
    std::pair{DType::I16, at::kShort},  std::pair{DType::I8, at::kChar},
    std::pair{DType::U8, at::kByte},    std::pair{DType::BOOL, at::kBool}};

at::ScalarType to_scalar_type(DType dtype) {
  for (const auto& [ours, theirs] : kTypes) {
    if (ours == dtype) return theirs;
  }
  throw_run("safetensors: dtype ", dtype_name(dtype), " has no tensor type");
}

}  // namespace

DType to_dtype(at::ScalarType type) {
  for (const auto& [ours, theirs] : kTypes) {
    if (theirs == type) return ours;
  }
  throw_run("a tensor of type ", c10::toString(type), " cannot be stored in a safetensors file");
}

at::Tensor to_tensor(const TensorView& view) {
  at::Tensor out = torch::empty(view.shape, to_scalar_type(view.dtype));
  if (view.bytes > 0) std::memcpy(out.mutable_data_ptr(), view.data, view.bytes);
  return out;
}

}  // namespace mneme::tensor
