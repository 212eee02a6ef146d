// The direction of Muon's updates: momentum that is made orthogonal.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace mneme::optim {

// Steps and coefficients a, b, c of the iteration [Jordan et al. 2024, "Muon: an optimizer for hidden
// layers in neural networks"].
inline constexpr int kMuonSteps = 5;
inline constexpr double kMuonA = 3.4445, kMuonB = -4.7750, kMuonC = 2.0315;
// The least Frobenius norm that a matrix is divided by.
inline constexpr double kMuonEpsilon = 1e-7;

// Whether Muon can update a parameter: a matrix with more than one row and more than one column.
[[nodiscard]] bool is_matrix(const at::Tensor& parameter);

// U V^T of the matrix G = U S V^T [m,n], approximately: singular values become numbers between about
// 0.7 and 1.2. Newton-Schulz iteration in the dtype `products`:
//
//   X = G / max(||G||, 1e-7), in G's dtype; of G^T where m > n
//   5 times:  A = X X^T,  X = a X + (b A + c A A) X
//
// The result has G's dtype. G = 0 gives 0.
[[nodiscard]] at::Tensor orthogonalized(const at::Tensor& matrix, at::ScalarType products);

// 0.2 sqrt(max(m, n)) [Liu et al. 2025, arXiv 2502.16982, section 2.2]: with it the root mean square
// of an update is that of AdamW's, so that both share learning rate and weight decay.
[[nodiscard]] double muon_scale(const at::Tensor& matrix);

}  // namespace mneme::optim
