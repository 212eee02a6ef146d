#include "basis_grid.hpp"

#include <cmath>
#include <string>

#include "mneme/cpp/failure.hpp"

namespace continuous_ltm {
namespace {

[[noreturn]] void refuse(const std::string& message) {
  mneme::fail(MNEME_E_INVALID_ARGUMENT, message);
}

}  // namespace

BasisGrid make_grid(int64_t basis, const std::vector<double>& widths, double band) {
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
