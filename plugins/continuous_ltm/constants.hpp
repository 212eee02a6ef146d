// Matrices of the regression as tensors of the host, and products with them.
#pragma once

#include <string>

#include "mneme/cpp/ops.hpp"
#include "ridge.hpp"

namespace continuous_ltm {

// A constant of the instance in f32 or f64; `make` gives the Matrix and is called once a key.
template <typename Make>
mneme::Tensor matrix(const std::string& key, int64_t rows, int64_t columns, mneme::DType dtype,
                     const Make& make) {
  const mneme::Shape shape{rows, columns};
  if (dtype == mneme::DType::kF64)
    return mneme::constant((key + ".f64").c_str(), shape, [&] { return make().values; });
  return mneme::constant((key + ".f32").c_str(), shape, [&] {
    const Matrix m = make();
    return std::vector<float>(m.values.begin(), m.values.end());
  });
}

// matrix [R,C] times every lane of x [b,C,D]. One lane takes the plain product: a batched one would
// copy.
inline mneme::Tensor apply(const mneme::Tensor& matrix, const mneme::Tensor& x) {
  const int64_t lanes = x.dim(0);
  if (lanes == 1) return mneme::unsqueeze(mneme::matmul(matrix, mneme::squeeze(x, 0)), 0);
  const mneme::Shape shape = matrix.shape();
  return mneme::matmul(mneme::expand(mneme::unsqueeze(matrix, 0), {lanes, shape[0], shape[1]}), x);
}

}  // namespace continuous_ltm
