#include "host/tensor/dtypes.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "host/base/error.hpp"
#include "host/tensor/torch.hpp"
#include "mneme/abi.h"

namespace mneme::tensor {
namespace {

struct ElementType {
  at::ScalarType type;
  DType stored;        // in safetensors files
  std::uint32_t code;  // of the ABI; 0 = none
  const char* name;    // of the code
};

constexpr std::array kElementTypes = {ElementType{at::kFloat, DType::F32, MNEME_F32, "f32"},
                                      ElementType{at::kBFloat16, DType::BF16, MNEME_BF16, "bf16"},
                                      ElementType{at::kHalf, DType::F16, MNEME_F16, "f16"},
                                      ElementType{at::kDouble, DType::F64, MNEME_F64, "f64"},
                                      ElementType{at::kInt, DType::I32, MNEME_I32, "i32"},
                                      ElementType{at::kLong, DType::I64, MNEME_I64, "i64"},
                                      ElementType{at::kBool, DType::BOOL, MNEME_BOOL, "bool"},
                                      ElementType{at::kShort, DType::I16, 0, "?"},
                                      ElementType{at::kChar, DType::I8, 0, "?"},
                                      ElementType{at::kByte, DType::U8, 0, "?"}};

// The entry whose `field` has this value; null when there is none.
template <typename Field>
const ElementType* find_type(Field ElementType::*field, Field value) noexcept {
  const auto* const found = std::ranges::find(kElementTypes, value, field);
  return found == kElementTypes.end() ? nullptr : found;
}

}  // namespace

std::optional<at::ScalarType> scalar_type_of(std::uint32_t code) noexcept {
  const ElementType* const found = code == 0 ? nullptr : find_type(&ElementType::code, code);
  return found == nullptr ? std::nullopt : std::optional(found->type);
}

std::uint32_t dtype_code_of(at::ScalarType type) noexcept {
  const ElementType* const found = find_type(&ElementType::type, type);
  return found == nullptr ? 0 : found->code;
}

const char* dtype_code_name(std::uint32_t code) noexcept {
  const ElementType* const found = find_type(&ElementType::code, code);
  return found == nullptr ? "?" : found->name;
}

const char* dtype_text(at::ScalarType type) noexcept {
  const std::uint32_t code = dtype_code_of(type);
  return code != 0 ? dtype_code_name(code) : c10::toString(type);
}

std::optional<at::ScalarType> scalar_type_of(DType dtype) noexcept {
  const ElementType* const found = find_type(&ElementType::stored, dtype);
  return found == nullptr ? std::nullopt : std::optional(found->type);
}

DType to_dtype(at::ScalarType type) {
  if (const ElementType* const found = find_type(&ElementType::type, type)) return found->stored;
  throw_run("a tensor of type ", c10::toString(type), " cannot be stored in a safetensors file");
}

at::Tensor to_tensor(const TensorView& view) {
  const std::optional<at::ScalarType> type = scalar_type_of(view.dtype);
  if (!type) {
    throw_run({.where = str("safetensors: tensor \"", view.name, '"'),
               .failed = "its dtype cannot be read as a tensor",
               .expected = "F64, F32, F16, BF16, I64, I32, I16, I8, U8 or BOOL",
               .got = std::string(dtype_name(view.dtype))});
  }
  // A file may have an empty tensor of any extents; LibTorch computes strides from them.
  std::vector<std::int64_t> extents = view.shape;
  std::ranges::replace(extents, 0, 1);
  std::size_t bytes = 0;
  if (!safetensors::checked_bytes(extents, view.dtype, bytes)) {
    throw_run({.where = str("safetensors: tensor \"", view.name, '"'),
               .failed = "the shape is too large for a tensor",
               .expected = "extents above 0 whose product is below 2^63 bytes",
               .got = list_text(view.shape)});
  }
  at::Tensor out = torch::empty(view.shape, *type);
  if (view.bytes > 0) std::memcpy(out.mutable_data_ptr(), view.data, view.bytes);
  return out;
}

namespace {

bool is_readable(const at::Tensor& y) { return y.is_cpu() && y.is_contiguous(); }

// y seen as [outer, extent, inner]: whether y[:, 0, :] has a NaN.
template <typename T>
bool has_nan_rows(const T* data, std::int64_t outer, std::int64_t extent, std::int64_t inner) {
  for (std::int64_t o = 0; o < outer; ++o) {
    const T* row = data + o * extent * inner;
    if (std::any_of(row, row + inner, [](T v) { return std::isnan(static_cast<double>(v)); })) {
      return true;
    }
  }
  return false;
}

}  // namespace

bool is_cpu_f32(const at::Tensor& t) {
  return t.device().is_cpu() && t.scalar_type() == at::kFloat && t.layout() == at::kStrided;
}

bool may_have_nan_rows(const at::Tensor& y, std::int64_t dim) {
  if (!is_readable(y)) return true;
  if (y.numel() == 0) return false;
  std::int64_t outer = 1;
  for (std::int64_t d = 0; d < dim; ++d) outer *= y.size(d);
  const std::int64_t extent = y.size(dim);
  const std::int64_t inner = y.numel() / outer / extent;
  return AT_DISPATCH_FLOATING_TYPES_AND2(
      at::kHalf, at::kBFloat16, y.scalar_type(), "may_have_nan_rows",
      [&] { return has_nan_rows(y.const_data_ptr<scalar_t>(), outer, extent, inner); });
}

bool may_have_infinities(const at::Tensor& y) {
  if (!is_readable(y)) return true;
  return AT_DISPATCH_FLOATING_TYPES_AND2(
      at::kHalf, at::kBFloat16, y.scalar_type(), "may_have_infinities", [&] {
        const scalar_t* data = y.const_data_ptr<scalar_t>();
        return std::any_of(data, data + y.numel(),
                           [](scalar_t v) { return std::isinf(static_cast<double>(v)); });
      });
}

}  // namespace mneme::tensor
