#include "ridge.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace continuous_ltm {
namespace {

// exp(-reach^2 / 2) = 2e-37: what lies beyond is far below a double's rounding of any sum here.
constexpr double kReach = 13.0;
constexpr int64_t kBlock = 8;  // right-hand sides solved together: one loop the compiler vectorises

// Functions [first, last) that reach t; widths vary quickly, so whole centres are taken.
struct Range {
  int64_t first = 0;
  int64_t last = 0;
};

Range functions_near(const BasisGrid& grid, double t) {
  const double widest = *std::max_element(grid.width, grid.width + grid.widths);
  const double steps = static_cast<double>(std::max<int64_t>(grid.centres - 1, 1));
  const auto index = [&](double place) {
    return std::clamp(place * steps, 0.0, static_cast<double>(grid.centres));
  };
  const auto first = static_cast<int64_t>(std::floor(index(t - kReach * widest)));
  const auto last = static_cast<int64_t>(std::ceil(index(t + kReach * widest))) + 1;
  return {std::min(first, grid.centres) * grid.widths, std::min(last, grid.centres) * grid.widths};
}

double density(const BasisGrid& grid, int64_t n, double t) {
  const double width = grid.width[n % grid.widths];
  const double z = (t - grid.centre(n / grid.widths)) / width;
  return std::exp(-0.5 * z * z) * kInverseRootTwoPi / width;
}

// The lower half of F F^T + ridge I.
Matrix normal_matrix(const BasisGrid& grid, const Points& points, double ridge) {
  const int64_t n = grid.basis();
  Matrix sum(n, n);
  std::vector<double> psi(static_cast<std::size_t>(n));
  const auto add = [&](const std::vector<double>& positions) {
    for (const double t : positions) {
      const Range near = functions_near(grid, t);
      for (int64_t i = near.first; i < near.last; ++i)
        psi[static_cast<std::size_t>(i)] = density(grid, i, t);
      for (int64_t i = near.first; i < near.last; ++i) {
        const double factor = psi[static_cast<std::size_t>(i)];
        if (factor == 0.0) continue;
        double* row = sum.row(i);
        for (int64_t j = near.first; j <= i; ++j)
          row[j] += factor * psi[static_cast<std::size_t>(j)];
      }
    }
  };
  add(points.real);
  add(points.padding);
  for (int64_t i = 0; i < n; ++i) sum.row(i)[i] += ridge;
  return sum;
}

// In place: the lower half becomes C with C C^T = the matrix.
void decompose(Matrix& a) {
  for (int64_t j = 0; j < a.rows; ++j) {
    double* pivot_row = a.row(j);
    double pivot = pivot_row[j];
    for (int64_t k = 0; k < j; ++k) pivot -= pivot_row[k] * pivot_row[k];
    if (!(pivot > 0.0)) {
      throw std::runtime_error(
          "the ridge regression has no solution: F F^T + ridge I is not positive definite; use a "
          "larger ridge");
    }
    pivot_row[j] = std::sqrt(pivot);
    for (int64_t i = j + 1; i < a.rows; ++i) {
      double* row = a.row(i);
      double partial[4] = {0.0, 0.0, 0.0, 0.0};
      int64_t k = 0;
      for (; k + 4 <= j; k += 4) {
        for (int64_t lane = 0; lane < 4; ++lane)
          partial[lane] += row[k + lane] * pivot_row[k + lane];
      }
      double sum = (partial[0] + partial[1]) + (partial[2] + partial[3]);
      for (; k < j; ++k) sum += row[k] * pivot_row[k];
      row[j] = (row[j] - sum) / pivot_row[j];
    }
  }
}

// x [N][kBlock] := (C C^T)^-1 x.
void solve(const Matrix& c, std::vector<double>& x) {
  for (int64_t i = 0; i < c.rows; ++i) {
    const double* row = c.row(i);
    double* own = x.data() + i * kBlock;
    for (int64_t j = 0; j < i; ++j) {
      const double* other = x.data() + j * kBlock;
      for (int64_t k = 0; k < kBlock; ++k) own[k] -= row[j] * other[k];
    }
    for (int64_t k = 0; k < kBlock; ++k) own[k] /= row[i];
  }
  for (int64_t i = c.rows - 1; i >= 0; --i) {
    const double* row = c.row(i);
    double* own = x.data() + i * kBlock;
    for (int64_t k = 0; k < kBlock; ++k) own[k] /= row[i];
    for (int64_t j = 0; j < i; ++j) {
      double* other = x.data() + j * kBlock;
      for (int64_t k = 0; k < kBlock; ++k) other[k] -= row[j] * own[k];
    }
  }
}

Matrix transposed_rows(const Matrix& m, int64_t first, int64_t count) {
  Matrix out(m.columns, count);
  for (int64_t r = 0; r < count; ++r) {
    for (int64_t c = 0; c < m.columns; ++c) out.row(c)[r] = m.row(first + r)[c];
  }
  return out;
}

// a [R,K] b [K,C]; b's rows are mostly zero in places, which are skipped by a's zeros only.
Matrix product(const Matrix& a, const Matrix& b) {
  Matrix out(a.rows, b.columns);
  for (int64_t r = 0; r < a.rows; ++r) {
    double* to = out.row(r);
    for (int64_t k = 0; k < a.columns; ++k) {
      const double factor = a.row(r)[k];
      const double* from = b.row(k);
      for (int64_t c = 0; c < b.columns; ++c) to[c] += factor * from[c];
    }
  }
  return out;
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
  // The outer points of an even grid from -1/2 + s to 3/2 - s. They are chosen by index: comparing
  // rounded places with 0 and 1 would depend on the precision.
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
      psi.row(p)[n] = density(grid, n, positions[static_cast<std::size_t>(p)]);
  }
  return psi;
}

Matrix ridge_matrix(const BasisGrid& grid, const Points& points, double ridge) {
  Matrix factor = normal_matrix(grid, points, ridge);
  decompose(factor);
  Matrix g = evaluate_basis(grid, points.real);
  std::vector<double> x(static_cast<std::size_t>(g.columns * kBlock));
  for (int64_t first = 0; first < g.rows; first += kBlock) {
    const int64_t count = std::min(kBlock, g.rows - first);
    std::fill(x.begin(), x.end(), 0.0);
    for (int64_t r = 0; r < count; ++r) {
      for (int64_t n = 0; n < g.columns; ++n)
        x[static_cast<std::size_t>(n * kBlock + r)] = g.row(first + r)[n];
    }
    solve(factor, x);
    for (int64_t r = 0; r < count; ++r) {
      for (int64_t n = 0; n < g.columns; ++n)
        g.row(first + r)[n] = x[static_cast<std::size_t>(n * kBlock + r)];
    }
  }
  return g;
}

UpdateMatrices update_matrices(const BasisGrid& grid, int64_t samples, int64_t l, double tau,
                               double ridge, bool is_padded) {
  UpdateMatrices out;
  const Matrix g = ridge_matrix(grid, update_points(samples, l, tau, is_padded), ridge);
  std::vector<double> places;
  for (int64_t m = 1; m <= samples; ++m)
    places.push_back(static_cast<double>(m) / static_cast<double>(samples));
  out.sampling = evaluate_basis(grid, places);
  out.past = transposed_rows(g, 0, samples);
  out.fresh = transposed_rows(g, samples, l);
  out.carry = product(out.past, out.sampling);
  out.spectral_radius = spectral_radius(out.carry);
  return out;
}

Matrix first_matrix(const BasisGrid& grid, int64_t l, double ridge, bool is_padded) {
  const Matrix g = ridge_matrix(grid, first_points(l, is_padded), ridge);
  return transposed_rows(g, 0, l);
}

double spectral_radius(const Matrix& a) {
  constexpr int kSettle = 60;    // steps until the largest eigenvalues are left
  constexpr int kMeasure = 240;  // steps over which growth is averaged: complex pairs oscillate
  std::vector<double> v(static_cast<std::size_t>(a.rows));
  std::vector<double> next(v.size());
  // Any start with a part in every direction; the same on every machine.
  for (std::size_t i = 0; i < v.size(); ++i) v[i] = 1.0 + std::sin(static_cast<double>(i * i + 1));
  double log_growth = 0.0;
  for (int step = 0; step < kSettle + kMeasure; ++step) {
    double norm = 0.0;
    for (int64_t r = 0; r < a.rows; ++r) {
      const double* row = a.row(r);
      double sum = 0.0;
      for (int64_t c = 0; c < a.columns; ++c) sum += row[c] * v[static_cast<std::size_t>(c)];
      next[static_cast<std::size_t>(r)] = sum;
      norm += sum * sum;
    }
    norm = std::sqrt(norm);
    if (!(norm > 0.0)) return 0.0;  // nilpotent
    for (std::size_t i = 0; i < v.size(); ++i) v[i] = next[i] / norm;
    if (step >= kSettle) log_growth += std::log(norm);
  }
  return std::exp(log_growth / kMeasure);
}

}  // namespace continuous_ltm
