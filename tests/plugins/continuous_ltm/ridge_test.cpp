// The regression of the continuous memory against its definition [infinity-former, section 3].
#include "plugins/continuous_ltm/ridge.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace continuous_ltm {
namespace {

BasisGrid grid_of(int64_t basis, const std::vector<double>& widths) {
  BasisGrid grid;
  grid.widths = static_cast<int32_t>(widths.size());
  grid.centres = basis / grid.widths;
  for (std::size_t i = 0; i < widths.size(); ++i) grid.width[i] = widths[i];
  return grid;
}

TEST(ContinuousLtmRidge, PutsTheFirstRowsInTheMiddleOfTheirCells) {
  for (const int64_t l : {1, 2, 12, 13}) {
    const Points points = first_points(l, true);
    ASSERT_EQ(static_cast<int64_t>(points.real.size()), l);
    for (int64_t j = 0; j < l; ++j)
      EXPECT_DOUBLE_EQ(points.real[static_cast<std::size_t>(j)],
                       (static_cast<double>(j) + 0.5) / static_cast<double>(l));
    // k cells a side, k = l / 2 or (l - 1) / 2.
    const int64_t k = l % 2 == 0 ? l / 2 : (l - 1) / 2;
    ASSERT_EQ(static_cast<int64_t>(points.padding.size()), 2 * k) << l;
    for (int64_t j = 0; j < k; ++j) {
      const double place = (static_cast<double>(j - k) + 0.5) / static_cast<double>(l);
      EXPECT_NEAR(points.padding[static_cast<std::size_t>(j)], place, 1e-15);
      // The other side mirrors it.
      EXPECT_NEAR(points.padding[points.padding.size() - 1 - static_cast<std::size_t>(j)],
                  1 - place, 1e-15);
    }
    EXPECT_TRUE(first_points(l, false).padding.empty());
    EXPECT_EQ(first_points(l, false).real, points.real);
  }
}

TEST(ContinuousLtmRidge, ContractsThePastAndPadsWithAnEvenGridOutside) {
  for (const int64_t l : {1, 8, 15}) {
    for (const int64_t m : {1, 6, 11}) {
      const Points points = update_points(m, l, 0.6, true);
      ASSERT_EQ(static_cast<int64_t>(points.real.size()), m + l);
      EXPECT_DOUBLE_EQ(points.real[static_cast<std::size_t>(m - 1)], 0.6);
      EXPECT_DOUBLE_EQ(points.real[0], 0.6 / static_cast<double>(m));
      EXPECT_DOUBLE_EQ(points.real[static_cast<std::size_t>(m)],
                       0.6 + 0.4 / static_cast<double>(l));
      EXPECT_DOUBLE_EQ(points.real.back(), 1.0);
      const double s = 1.0 / static_cast<double>(2 * l + m);
      const int64_t count = 2 * (l + m);
      std::vector<double> outside;
      for (int64_t i = 0; i < count; ++i) {
        const double place =
            -0.5 + s + (2 - 2 * s) * static_cast<double>(i) / static_cast<double>(count - 1);
        // No member lies on 0 or 1, so that rounding decides nothing here.
        if (place < 0 || place > 1) outside.push_back(place);
      }
      ASSERT_EQ(points.padding.size(), outside.size()) << l << " rows, " << m << " samples";
      for (std::size_t i = 0; i < outside.size(); ++i)
        EXPECT_NEAR(points.padding[i], outside[i], 1e-14);
    }
  }
}

// max |(F F^T + ridge I) G^T - F| over functions and real points.
double residual(const BasisGrid& grid, const Points& points, double ridge) {
  std::vector<double> all = points.real;
  all.insert(all.end(), points.padding.begin(), points.padding.end());
  const Matrix psi = evaluate_basis(grid, all);
  const Matrix g = ridge_matrix(grid, points, ridge);
  double worst = 0.0;
  for (int64_t p = 0; p < g.rows; ++p) {
    // F F^T G^T by columns: first F^T g [P], then F of it.
    std::vector<double> signal(all.size(), 0.0);
    for (std::size_t t = 0; t < all.size(); ++t) {
      for (int64_t n = 0; n < g.columns; ++n)
        signal[t] += psi.row(static_cast<int64_t>(t))[n] * g.row(p)[n];
    }
    for (int64_t n = 0; n < g.columns; ++n) {
      double sum = ridge * g.row(p)[n] - psi.row(p)[n];
      for (std::size_t t = 0; t < all.size(); ++t)
        sum += psi.row(static_cast<int64_t>(t))[n] * signal[t];
      worst = std::max(worst, std::abs(sum));
    }
  }
  return worst;
}

TEST(ContinuousLtmRidge, SolvesTheNormalEquations) {
  const std::vector<double> four = {0.01, 0.02, 0.05, 0.1};
  EXPECT_LE(residual(grid_of(32, four), first_points(13, true), 0.5), 1e-10);
  EXPECT_LE(residual(grid_of(32, four), update_points(16, 15, 0.5, true), 0.5), 1e-10);
  EXPECT_LE(residual(grid_of(2, {0.05, 0.2}), update_points(8, 10, 0.75, false), 1.0), 1e-12);
  EXPECT_LE(residual(grid_of(1, {0.3}), first_points(1, true), 1e-6), 1e-12);
}

TEST(ContinuousLtmRidge, CombinesSamplingAndRegressionIntoOneMatrix) {
  const BasisGrid grid = grid_of(12, {0.02, 0.1});
  const UpdateMatrices update = update_matrices(grid, 9, 7, 0.75, 1.0, true);
  const Matrix g = ridge_matrix(grid, update_points(9, 7, 0.75, true), 1.0);
  for (int64_t n = 0; n < 12; ++n) {
    for (int64_t m = 0; m < 9; ++m) EXPECT_EQ(update.past.row(n)[m], g.row(m)[n]);
    for (int64_t i = 0; i < 7; ++i) EXPECT_EQ(update.fresh.row(n)[i], g.row(9 + i)[n]);
    for (int64_t k = 0; k < 12; ++k) {
      double sum = 0.0;
      for (int64_t m = 0; m < 9; ++m) sum += update.past.row(n)[m] * update.sampling.row(m)[k];
      EXPECT_NEAR(update.carry.row(n)[k], sum, 1e-14);
    }
  }
}

// Spectral radii that were measured on the official code's matrices.
TEST(ContinuousLtmRidge, KnowsWhenAnUpdateGrows) {
  const auto radius = [](int64_t n, const std::vector<double>& widths, int64_t m, int64_t l,
                         double tau, double ridge) {
    return update_matrices(grid_of(n, widths), m, l, tau, ridge, true).spectral_radius;
  };
  EXPECT_NEAR(radius(64, {0.01, 0.05}, 32, 24, 0.75, 1.0), 1.54, 0.005);
  EXPECT_NEAR(radius(64, {0.01, 0.05}, 64, 24, 0.75, 1.0), 0.59, 0.005);
  EXPECT_NEAR(radius(150, {0.01, 0.05}, 150, 150, 0.5, 1.0), 0.24, 0.01);
  EXPECT_NEAR(radius(512, {0.005, 0.01}, 512, 512, 0.5, 0.5), 0.27, 0.01);
}

TEST(ContinuousLtmRidge, FindsTheRadiusOfRotationsAndOfNothing) {
  Matrix rotation(2, 2);  // eigenvalues 0.9 e^(+-i)
  rotation.values = {0.9 * std::cos(1.0), -0.9 * std::sin(1.0), 0.9 * std::sin(1.0),
                     0.9 * std::cos(1.0)};
  EXPECT_NEAR(spectral_radius(rotation), 0.9, 1e-9);
  Matrix nilpotent(2, 2);
  nilpotent.values = {0.0, 5.0, 0.0, 0.0};
  EXPECT_EQ(spectral_radius(nilpotent), 0.0);
}

TEST(ContinuousLtmRidge, RefusesAMatrixWithoutASolution) {
  // More functions than points, and a penalty below a double's rounding of F F^T.
  EXPECT_THROW(ridge_matrix(grid_of(64, {0.3, 0.3}), first_points(4, true), 1e-30),
               std::runtime_error);
}

// A segment of one row has no padding points, at any size of the basis.
TEST(ContinuousLtmRidge, FitsASingleRow) {
  for (const int64_t basis : {4, 64, 256, 512}) {
    for (const bool is_padded : {false, true}) {
      const Matrix one = first_matrix(make_grid(basis, {0.01, 0.05}), 1, 0.5, is_padded);
      EXPECT_EQ(one.rows, basis);
      EXPECT_EQ(one.columns, 1);
      for (const double value : one.values) EXPECT_TRUE(std::isfinite(value));
    }
  }
}

}  // namespace
}  // namespace continuous_ltm
