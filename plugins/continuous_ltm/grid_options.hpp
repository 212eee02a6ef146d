// Makes the kernels' grid from the tier's options.
#pragma once

#include <cstdint>
#include <vector>

#include "basis_grid.hpp"

namespace continuous_ltm {

// `basis` functions of the given widths (in units of the signal's length). `band`: functions
// further than so many standard deviations from a density's mean are skipped; 0 visits all,
// kBandByPrecision takes kBandF32 or kBandF64. Errors: Failure(MNEME_E_INVALID_ARGUMENT) when there
// is no width or more than kMaxWidths, a width is not above 0, basis is not a positive multiple of
// their number, or band is neither.
BasisGrid make_grid(int64_t basis, const std::vector<double>& widths,
                    double band = kBandByPrecision);

}  // namespace continuous_ltm
