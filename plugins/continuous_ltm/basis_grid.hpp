// The centres and widths of the Gaussian basis, for the regression (ridge.hpp) and the kernels.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "mneme/cpp/failure.hpp"

namespace continuous_ltm {

// Constants of the normal density N(x; mu, v) = exp(-(x - mu)^2 / (2 v)) / sqrt(2 pi v). Kernels
// compute it as 2^(-(x - mu)^2 log2(e) / (2 v)) sqrt(1 / (2 pi v)).
inline constexpr double kInverseRootTwoPi = 0.39894228040143267794;
inline constexpr double kInverseTwoPi = 0.15915494309189533577;
inline constexpr double kHalfLog2E = 0.72134752044448170368;

inline constexpr int32_t kMaxWidths = 16;

// Functions further from a query or a position than so many standard deviations are skipped: what
// they add is less than exp(-band^2 / 2) of the largest term, 7e-10 for f32 and 3e-18 for f64.
inline constexpr double kBandF32 = 6.5;
inline constexpr double kBandF64 = 9.0;
inline constexpr double kBandByPrecision = -1.0;

// N = centres * widths functions; function n has the centre n / widths and the width n % widths
// [infinity-former, section 3.1; order of the official code].
struct BasisGrid {
  int64_t centres = 0;
  int32_t widths = 0;
  double width[kMaxWidths] = {};   // sigma_n, in units of the signal's length
  double band = kBandByPrecision;  // 0: every function is visited

  int64_t basis() const { return centres * widths; }
  // Places spread evenly over [0,1], both ends included; 0 for a single one.
  double centre(int64_t c) const {
    return centres > 1 ? static_cast<double>(c) / static_cast<double>(centres - 1) : 0.0;
  }
  // The band in use.
  double cutoff(bool is_f64) const { return band >= 0.0 ? band : is_f64 ? kBandF64 : kBandF32; }
};

// `basis` functions of the given widths (in units of the signal's length). `band`: functions
// further than so many standard deviations from a density's mean are skipped; 0 visits all,
// kBandByPrecision takes kBandF32 or kBandF64. Errors: Failure(MNEME_E_INVALID_ARGUMENT) when there
// is no width or more than kMaxWidths, a width is not above 0, basis is not a positive multiple of
// their number, or band is neither.
inline BasisGrid make_grid(int64_t basis, const std::vector<double>& widths,
                           double band = kBandByPrecision) {
  const auto refuse = [](const std::string& message) {
    mneme::fail(MNEME_E_INVALID_ARGUMENT, message);
  };
  const auto count = static_cast<int64_t>(widths.size());
  if (count < 1 || count > kMaxWidths) {
    refuse("widths: expected 1 to " + std::to_string(kMaxWidths) + " of them, got " +
           std::to_string(count));
  }
  if (basis < 1 || basis % count != 0) {
    refuse("basis: expected a positive multiple of the number of widths, " + std::to_string(count) +
           ", got " + std::to_string(basis));
  }
  if (!(band >= 0.0 && std::isfinite(band)) && band != kBandByPrecision) {
    refuse("band: expected 0 or more standard deviations, got " + std::to_string(band));
  }
  BasisGrid grid;
  grid.centres = basis / count;
  grid.widths = static_cast<int32_t>(count);
  grid.band = band;
  for (std::size_t w = 0; w < widths.size(); ++w) {
    if (!(widths[w] > 0.0 && std::isfinite(widths[w]))) {
      refuse("widths: expected numbers above 0, got " + std::to_string(widths[w]));
    }
    grid.width[w] = widths[w];
  }
  return grid;
}

}  // namespace continuous_ltm
