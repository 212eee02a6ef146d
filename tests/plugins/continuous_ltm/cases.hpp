// Sizes, densities and comparisons that the kernel tests of the continuous memory share.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "plugins/continuous_ltm/basis_grid.hpp"
#include "plugins/continuous_ltm/kernels/reference/kernels.hpp"
#include "tests/plugins/kernel_compare.hpp"
#include "tests/plugins/kernel_run.hpp"

namespace mneme::test {

namespace reference = continuous_ltm::reference;

// How wide the queries' densities are.
enum class Spread { kNarrow, kWide, kMixed };

struct LtmCase {
  int64_t lanes, heads, queries, head_width, basis;
  std::vector<double> widths;
  Spread spread = Spread::kMixed;
  double band = continuous_ltm::kBandByPrecision;

  reference::Basis reference_basis() const { return {basis, widths}; }
  continuous_ltm::BasisGrid grid() const { return continuous_ltm::make_grid(basis, widths, band); }
};

inline std::string text_of(const LtmCase& c) {
  return "B=" + std::to_string(c.lanes) + " H=" + std::to_string(c.heads) +
         " T=" + std::to_string(c.queries) + " d=" + std::to_string(c.head_width) +
         " N=" + std::to_string(c.basis) + " W=" + std::to_string(c.widths.size()) +
         " spread=" + std::to_string(static_cast<int>(c.spread)) +
         " band=" + std::to_string(c.band);
}

// Means in [0,1], the ends included; variances down to 1e-6.
inline reference::Densities random_densities(std::mt19937& random, const LtmCase& c) {
  std::uniform_real_distribution<double> unit(0.0, 1.0);
  reference::Densities p;
  p.lanes = c.lanes;
  p.heads = c.heads;
  p.queries = c.queries;
  for (int64_t i = 0; i < c.lanes * c.heads * c.queries; ++i) {
    const double place = unit(random);
    p.mu.push_back(i % 11 == 0 ? 0.0 : i % 11 == 1 ? 1.0 : place);
    const bool is_wide =
        c.spread == Spread::kWide || (c.spread == Spread::kMixed && unit(random) < 0.3);
    const double exponent = is_wide ? unit(random) * 2.0 - 1.5 : unit(random) * 3.0 - 6.0;
    p.variance.push_back(i % 7 == 0 && !is_wide ? 1e-6 : std::pow(10.0, exponent));
  }
  return p;
}

}  // namespace mneme::test
