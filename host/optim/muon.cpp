#include "host/optim/muon.hpp"

#include <algorithm>
#include <cmath>

#include "host/tensor/torch.hpp"

namespace mneme::optim {

bool is_matrix(const at::Tensor& parameter) {
  return parameter.dim() == 2 && parameter.size(0) > 1 && parameter.size(1) > 1;
}

at::Tensor orthogonalized(const at::Tensor& matrix, at::ScalarType products) {
  // The smaller of X X^T and X^T X.
  const bool is_tall = matrix.size(0) > matrix.size(1);
  const at::Tensor wide = is_tall ? matrix.t() : matrix;
  at::Tensor x = (wide / wide.norm().clamp_min(kMuonEpsilon)).to(products);
  for (int step = 0; step < kMuonSteps; ++step) {
    const at::Tensor a = at::mm(x, x.t());
    const at::Tensor b = at::addmm(a, a, a, /*beta=*/kMuonB, /*alpha=*/kMuonC);
    x = at::addmm(x, b, x, /*beta=*/kMuonA, /*alpha=*/1.0);
  }
  return (is_tall ? x.t() : x).to(matrix.scalar_type());
}

double muon_scale(const at::Tensor& matrix) {
  return 0.2 * std::sqrt(static_cast<double>(std::max(matrix.size(0), matrix.size(1))));
}

}  // namespace mneme::optim
