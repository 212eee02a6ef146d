#include "settings.hpp"

#include <algorithm>
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

Settings::Settings(const mneme::Setup& s)
    : basis(s.integer("basis")),
      grid(make_grid(basis, s.reals("widths"))),
      tau(s.real("tau")),
      samples(s.integer("samples") == 0 ? basis : s.integer("samples")),
      ridge(s.real("ridge")),
      is_padded(s.boolean("padding")),
      has_gate(s.boolean("gate")),
      is_sticky(s.boolean("sticky")),
      bins(s.integer("bins")),
      within_bin(s.text("within_bin") == "left" ? WithinBin::kLeft : WithinBin::kUniform),
      variance_floor(s.real("variance_floor")),
      sigma_0(s.real("sigma_0")),
      lambda_kl(s.real("lambda_kl")),
      has_kl_mean(s.boolean("kl_mean")),
      mu_0(s.real("mu_0")),
      reset_tokens(s.integer("reset_tokens")),
      is_normed(s.text("memory_input") == "normed"),
      has_affine_bias(s.boolean("affine_bias")),
      reports_error(s.boolean("report_error")),
      is_plain(s.text("path") == "plain") {
  if (has_kl_mean && sigma_0 == 0.0) {
    mneme::fail(MNEME_E_INVALID_ARGUMENT,
                "kl_mean = true needs a KL term: give a sigma_0 above 0, or leave kl_mean out");
  }
}

}  // namespace continuous_ltm
