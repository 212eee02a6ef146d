// Products in bf16 on CUDA whose sizes and distances of rows are multiples of 8 numbers, 16 bytes,
// which the products on tensor cores read at once. Zeros, which add nothing, are behind the numbers.
// Results have their own sizes.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace mneme::tensor {

inline constexpr std::int64_t kPaddedTo = 8;  // numbers of bf16

// n, up to a multiple of 8.
[[nodiscard]] constexpr std::int64_t padded_size(std::int64_t n) {
  return (n + kPaddedTo - 1) / kPaddedTo * kPaddedTo;
}

// Whether a product of rows with this weight [outputs,inputs], or with its copy in the type of the
// rows, is padded: bf16 on CUDA, where one of its sizes is no multiple of 8.
[[nodiscard]] bool pads_products(at::Device device, at::ScalarType type, at::IntArrayRef weight);

// While one lives, its thread pads products in bf16 on the CPU too: for tests.
class WithPaddedProducts {
 public:
  WithPaddedProducts();
  ~WithPaddedProducts();
  WithPaddedProducts(const WithPaddedProducts&) = delete;
  WithPaddedProducts& operator=(const WithPaddedProducts&) = delete;

 private:
  bool before_;
};

// A vector [n] or a matrix [n,d] in `type`, in memory that is zero behind its numbers: rows are
// padded_size(d) numbers apart, and 7 more numbers, or rows, are behind the last one. So padded() of
// it, and of consecutive rows of it, is a view.
[[nodiscard]] at::Tensor copy_with_room(const at::Tensor& t, at::ScalarType type);

// A vector or a matrix in its padded sizes, without its graph. Of a view into copy_with_room() a
// view, behind whose numbers are zeros or numbers of other rows; else a copy with zeros. All that a
// weight has in memory behind its numbers has to be finite.
[[nodiscard]] at::Tensor padded(const at::Tensor& t);

// Rows [n,d] as [n,padded_size(d)] with zeros; the same tensor where d is a multiple of 8.
[[nodiscard]] at::Tensor padded_rows(const at::Tensor& rows);

// x w^T + bias with x [n,inputs], w [outputs,inputs], bias [outputs] or undefined, all of one type:
// [n,outputs], whose rows lie padded_size(outputs) numbers apart. Differentiable once.
[[nodiscard]] at::Tensor padded_linear(const at::Tensor& x, const at::Tensor& w,
                                       const at::Tensor& bias);

}  // namespace mneme::tensor
