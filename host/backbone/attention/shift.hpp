// Position scores as index arithmetic [Transformer-XL, appendix B]: a product of queries with a
// table of distances becomes scores of columns by reading it with rows one element shorter.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace mneme::backbone {

// scale * (q + bias), contiguous [H,B,T,d]. bias [H,d]; undefined = 0.
at::Tensor scaled_query(const at::Tensor& q, const at::Tensor& bias, double scale);

// A table [H,W,d] with rows of zeros behind its own up to a multiple of 8, which no score reads: rows
// of position scores then begin at multiples of 16 bytes, as products on tensor cores want them.
at::Tensor with_aligned_rows(const at::Tensor& table);

// The part [H,B,T,placed] of position scores [H,B*T,W]: entry (i, j) is column T-1-i+j of row i. A
// view.
at::Tensor shifted(const at::Tensor& raw, std::int64_t lanes, std::int64_t placed);

// The transpose of `shifted`: gradients [H,B,T,placed], any strides, to [H,B*T,W].
at::Tensor unshifted(const at::Tensor& grad, std::int64_t columns);

}  // namespace mneme::backbone
