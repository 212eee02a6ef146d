#include "ridge.hpp"

#define EIGEN_MPL2_ONLY
#include <Eigen/Cholesky>
#include <cmath>
#include <stdexcept>

namespace continuous_ltm {
namespace {

// exp(-kCutoff^2 / 2) = 2e-37: what lies beyond is far below a double's rounding of any sum here.
constexpr double kCutoff = 13.0;

using Dense = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

Eigen::Map<const Dense> view(const Matrix& m) { return {m.values.data(), m.rows, m.columns}; }
Eigen::Map<Dense> view(Matrix& m) { return {m.values.data(), m.rows, m.columns}; }

template <typename Expression>
Matrix matrix_of(const Expression& expression) {
  Matrix out(expression.rows(), expression.cols());
  view(out) = expression;
  return out;
}

double basis_function(const BasisGrid& grid, int64_t n, double t) {
  const double width = grid.width[n % grid.widths];
  const double z = (t - grid.centre(n / grid.widths)) / width;
  return std::abs(z) < kCutoff ? std::exp(-0.5 * z * z) * kInverseRootTwoPi / width : 0.0;
}

}  // namespace

Points first_points(int64_t l, bool is_padded) {
  Points points;
  const int64_t padding = is_padded ? l / 2 : 0;
  for (int64_t j = -padding; j < l + padding; ++j) {
    const double place = (static_cast<double>(j) + 0.5) / static_cast<double>(l);
    (j < 0 || j >= l ? points.padding : points.real).push_back(place);
  }
  return points;
}

Points update_points(int64_t samples, int64_t l, double tau, bool is_padded) {
  Points points;
  for (int64_t m = 1; m <= samples; ++m)
    points.real.push_back(static_cast<double>(m) * tau / static_cast<double>(samples));
  for (int64_t i = 1; i <= l; ++i)
    points.real.push_back(tau + (1.0 - tau) * static_cast<double>(i) / static_cast<double>(l));
  if (!is_padded) return points;
  // The outer points of an even grid from -1/2 + s to 3/2 - s, with the official code's s for an
  // even l. Chosen by index: comparing rounded locations with 0 and 1 depends on the precision.
  const int64_t count = 2 * (l + samples);
  const double s = 1.0 / static_cast<double>(2 * l + samples);
  const double step = (2.0 - 2.0 * s) / static_cast<double>(count - 1);
  const int64_t side = (l + samples) / 2;
  for (int64_t i = 0; i < side; ++i)
    points.padding.push_back(-0.5 + s + step * static_cast<double>(i));
  for (int64_t i = count - side; i < count; ++i)
    points.padding.push_back(-0.5 + s + step * static_cast<double>(i));
  return points;
}

Matrix evaluate_basis(const BasisGrid& grid, const std::vector<double>& positions) {
  Matrix psi(static_cast<int64_t>(positions.size()), grid.basis());
  for (int64_t p = 0; p < psi.rows; ++p) {
    for (int64_t n = 0; n < psi.columns; ++n)
      psi.row(p)[n] = basis_function(grid, n, positions[static_cast<std::size_t>(p)]);
  }
  return psi;
}

Matrix ridge_matrix(const BasisGrid& grid, const Points& points, double ridge) {
  Matrix g = evaluate_basis(grid, points.real);
  Dense normal = ridge * Dense::Identity(g.columns, g.columns);
  normal.selfadjointView<Eigen::Lower>().rankUpdate(view(g).transpose());
  if (!points.padding.empty()) {  // Eigen divides by the number of rows
    const Matrix padding = evaluate_basis(grid, points.padding);
    normal.selfadjointView<Eigen::Lower>().rankUpdate(view(padding).transpose());
  }
  const Eigen::LLT<Eigen::Ref<Dense>> factor(normal);
  if (factor.info() != Eigen::Success || !normal.diagonal().allFinite()) {
    throw std::runtime_error(
        "the ridge regression has no solution: F F^T + ridge I is not positive definite; use a "
        "larger ridge");
  }
  const Eigen::MatrixXd solved = factor.solve(view(g).transpose());
  view(g) = solved.transpose();
  return g;
}

UpdateMatrices update_matrices(const BasisGrid& grid, int64_t samples, int64_t l, double tau,
                               double ridge, bool is_padded) {
  UpdateMatrices out;
  const Matrix g = ridge_matrix(grid, update_points(samples, l, tau, is_padded), ridge);
  std::vector<double> locations;
  for (int64_t m = 1; m <= samples; ++m)
    locations.push_back(static_cast<double>(m) / static_cast<double>(samples));
  out.sampling = evaluate_basis(grid, locations);
  out.past = matrix_of(view(g).topRows(samples).transpose());
  out.fresh = matrix_of(view(g).bottomRows(l).transpose());
  out.carry = matrix_of(view(out.past) * view(out.sampling));
  out.spectral_radius = spectral_radius(out.carry);
  return out;
}

Matrix first_matrix(const BasisGrid& grid, int64_t l, double ridge, bool is_padded) {
  return matrix_of(view(ridge_matrix(grid, first_points(l, is_padded), ridge)).transpose());
}

double spectral_radius(const Matrix& a) {
  constexpr int kSettle = 60;    // steps until the largest eigenvalues are left
  constexpr int kMeasure = 240;  // steps over which growth is averaged: complex pairs oscillate
  // A start vector with a component in every direction, the same on every machine.
  Eigen::VectorXd v(a.rows);
  for (int64_t i = 0; i < a.rows; ++i) v[i] = 1.0 + std::sin(static_cast<double>(i * i + 1));
  double log_growth = 0.0;
  for (int step = 0; step < kSettle + kMeasure; ++step) {
    v = view(a) * v;  // Eigen takes a copy of v first
    const double norm = v.norm();
    if (!(norm > 0.0)) return 0.0;  // nilpotent
    v /= norm;
    if (step >= kSettle) log_growth += std::log(norm);
  }
  return std::exp(log_growth / kMeasure);
}

}  // namespace continuous_ltm
