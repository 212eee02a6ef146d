// The ridge regression that turns rows into coefficients of a Gaussian basis, in double whatever
// the run's dtype. Pure functions of the configuration and of row counts.
#pragma once

#include <cstdint>
#include <vector>

#include "basis_grid.hpp"

namespace continuous_ltm {

// Row-major [rows, columns].
struct Matrix {
  int64_t rows = 0;
  int64_t columns = 0;
  std::vector<double> values;

  Matrix() = default;
  Matrix(int64_t r, int64_t c)
      : rows(r), columns(c), values(static_cast<std::size_t>(r) * static_cast<std::size_t>(c)) {}
  double* row(int64_t r) { return values.data() + r * columns; }
  const double* row(int64_t r) const { return values.data() + r * columns; }
};

// The points of the regression. Zero targets stand at `padding`, which pulls the signal to zero
// outside of [0,1] (not in the paper; the official code does it and its numbers depend on it).
struct Points {
  std::vector<double> real;
  std::vector<double> padding;
};

// l rows of a fresh memory: the centres of l cells of [0,1], padded by about l / 2 cells a side.
Points first_points(int64_t l, bool is_padded);
// M samples of the old signal in [0,tau], then l new rows in (tau,1] [infinity-former, section 3.2,
// equations 13 to 15], padded by (M + l) / 2 points a side.
Points update_points(int64_t samples, int64_t l, double tau, bool is_padded);

// psi_n(t) = N(t; mu_n, sigma_n^2) at each position: [P, N] [below equation 4].
Matrix evaluate_basis(const BasisGrid& grid, const std::vector<double>& positions);

// G [real points, N]: coefficients are G^T rows. G = F^T (F F^T + ridge I)^-1, F [N, all points]
// [equations 5 and 23], without the rows of padding points, whose targets are zero. Solved by
// Cholesky's method. Throws std::runtime_error when F F^T + ridge I is not positive definite.
Matrix ridge_matrix(const BasisGrid& grid, const Points& points, double ridge);

// The matrices of an update with l new rows X: the new coefficients are past * (the old signal at
// the samples) + fresh * X. With evenly spaced samples the old signal there is Psi C, with the old
// coefficients C and a constant Psi, so that the update is carry * C + fresh * X.
struct UpdateMatrices {
  Matrix fresh;                  // [N, l]
  Matrix past;                   // [N, M]
  Matrix carry;                  // A = past Psi [N, N]
  Matrix sampling;               // Psi [M, N]: the basis at j / M, j = 1 .. M
  double spectral_radius = 0.0;  // of A; at 1 or more the signal grows without bound
};
UpdateMatrices update_matrices(const BasisGrid& grid, int64_t samples, int64_t l, double tau,
                               double ridge, bool is_padded);

// G_first^T [N, l].
Matrix first_matrix(const BasisGrid& grid, int64_t l, double ridge, bool is_padded);

// The spectral radius by the growth of A^k v, relative error below about 1e-3. A [N,N].
double spectral_radius(const Matrix& a);

}  // namespace continuous_ltm
