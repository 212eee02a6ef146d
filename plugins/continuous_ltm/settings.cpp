#include "settings.hpp"

#include <algorithm>

#include "basis_grid.hpp"

namespace continuous_ltm {

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
