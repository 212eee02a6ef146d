// The centres and widths of the Gaussian basis, as the kernels see them. No SDK type, so that .cu
// files stay free of it.
#pragma once

#include <cstdint>

namespace continuous_ltm {

inline constexpr int32_t kMaxWidths = 16;

// A query or a position reaches so many standard deviations; what lies beyond adds less than
// exp(-band^2 / 2) of the largest term: 7e-10 for f32, 3e-18 for f64.
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
  double reach(bool is_f64) const { return band >= 0.0 ? band : is_f64 ? kBandF64 : kBandF32; }
};

}  // namespace continuous_ltm
