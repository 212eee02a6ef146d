#include "host/ops/cpu_scan.hpp"

#include <algorithm>
#include <cmath>

#include "host/tensor/torch.hpp"

namespace mneme::ops {
namespace {

bool is_readable(const at::Tensor& y) { return y.is_cpu() && y.is_contiguous(); }

// y seen as [outer, extent, inner]: whether y[:, 0, :] has a NaN.
template <typename T>
bool has_nan_rows(const T* data, int64_t outer, int64_t extent, int64_t inner) {
  for (int64_t o = 0; o < outer; ++o) {
    const T* row = data + o * extent * inner;
    if (std::any_of(row, row + inner, [](T v) { return std::isnan(static_cast<double>(v)); })) {
      return true;
    }
  }
  return false;
}

}  // namespace

bool may_have_nan_rows(const at::Tensor& y, int64_t dim) {
  if (!is_readable(y)) return true;
  if (y.numel() == 0) return false;
  int64_t outer = 1;
  for (int64_t d = 0; d < dim; ++d) outer *= y.size(d);
  const int64_t extent = y.size(dim);
  const int64_t inner = y.numel() / outer / extent;
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

}  // namespace mneme::ops
