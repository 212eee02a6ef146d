// Set-up: options, what the tier declares to the host, the matrices of updates and the log.
#include "continuous_ltm.hpp"

#include <array>
#include <cstdio>
#include <map>
#include <tuple>

#include "mneme/cpp/log.hpp"
#include "mneme/plugin.hpp"

namespace continuous_ltm {
namespace {

// The matrices of updates, in double, shared between the instances of a process, which mostly need
// the same ones; they cost seconds at a thousand functions. The tensors are each instance's own.
using MatricesKey =
    std::tuple<int64_t, std::vector<double>, int64_t, int64_t, double, double, bool>;
struct MatricesCache {
  std::mutex mutex;
  std::map<MatricesKey, std::shared_ptr<const UpdateMatrices>> entries;
};
MatricesCache& matrices_cache() {
  static auto* const cache = new MatricesCache;  // never destroyed: plugins are never unmapped
  return *cache;
}

// Printed with the digits that are certain (ridge.hpp).
std::string radius_text(double radius) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.4f", radius);
  return text.data();
}

}  // namespace

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

ContinuousLtm::ContinuousLtm(mneme::Setup& s)
    : settings_(s),
      segment_(s.segment()),
      layer_share_(1.0 / static_cast<double>(s.served().size())),
      expectation_(settings_.grid),
      signal_(settings_.grid),
      histogram_(settings_.bins) {
  declare_parameters(s);
  coefficients_ = s.slot("coefficients", {mneme::kLanes, settings_.basis, s.width()});
  if (settings_.is_sticky) {
    mneme::SlotSettings precise;
    precise.dtype = mneme::DType::kF64;
    density_histogram_ =
        s.slot("density", {mneme::kLanes, settings_.bins}, mneme::zeros(), precise);
  }
  absorbed_ = s.counts("absorbed");
  expectation_id_ = s.kernel(expectation_);
  signal_id_ = s.kernel(signal_);
  histogram_id_ = s.kernel(histogram_);
  finite_rows_id_ = s.kernel(finite_rows_);
  s.absorbs_before_reading();
  s.reads_at(MNEME_SITE_OUT);
  s.wants(MNEME_WANT_READ_Q);
  say_growth();
}

void ContinuousLtm::declare_parameters(mneme::Setup& s) {
  const int64_t inner = s.heads() * s.head_width();
  const mneme::Init linear = mneme::normal(0.0, 0.02);  // GPT-2's rule, as in the official runs
  key_ = s.parameter("key_weight", {inner, s.width()}, linear);
  value_ = s.parameter("value_weight", {inner, s.width()}, linear);
  output_ = s.parameter("output_weight", {s.width(), inner}, linear);
  mu_ = s.parameter("mu_weight", {1, settings_.basis}, linear);
  sigma_ = s.parameter("sigma_weight", {1, settings_.basis}, linear);
  if (settings_.has_gate) {
    const mneme::Init fan_in = mneme::fan_in_uniform(3 * s.width());
    gate_weight_ = s.parameter("gate_weight", {s.width(), 3, s.width()}, fan_in);
    gate_bias_ = s.parameter("gate_bias", {s.width()}, fan_in);
  }
  if (settings_.has_affine_bias) {
    mu_bias_ = s.parameter("mu_bias", {1});
    sigma_bias_ = s.parameter("sigma_bias", {1});
  }
}

std::shared_ptr<const UpdateMatrices> ContinuousLtm::matrices_of(int64_t length) const {
  const BasisGrid& grid = settings_.grid;
  const MatricesKey key(settings_.basis, {grid.width, grid.width + grid.widths}, settings_.samples,
                        length, settings_.tau, settings_.ridge, settings_.is_padded);
  MatricesCache& cache = matrices_cache();
  const std::lock_guard lock(cache.mutex);
  std::shared_ptr<const UpdateMatrices>& entry = cache.entries[key];
  if (entry == nullptr) {
    entry = std::make_shared<const UpdateMatrices>(update_matrices(
        grid, settings_.samples, length, settings_.tau, settings_.ridge, settings_.is_padded));
  }
  return entry;
}

// The number of rows differs from the run's segment: at evaluation with another segment, behind a
// cache, or where documents end.
void ContinuousLtm::announce(int64_t length) const {
  mneme::log_line(mneme::LogLevel::kInfo, kId,
                  "makes the constants of updates with " + std::to_string(length) +
                      " rows; the run's segment is " + std::to_string(segment_));
  warn_of_growth(length);
}

void ContinuousLtm::say_growth() const {
  mneme::log_line(mneme::LogLevel::kInfo, kId,
                  "the update with segments of " + std::to_string(segment_) + " rows and " +
                      std::to_string(settings_.samples) + " samples has spectral radius " +
                      radius_text(matrices_of(segment_)->spectral_radius));
  warn_of_growth(segment_);
}

void ContinuousLtm::warn_of_growth(int64_t length) const {
  const double radius = matrices_of(length)->spectral_radius;
  if (radius < 1.0) return;
  mneme::log_line(mneme::LogLevel::kWarning, kId,
                  "with segments of " + std::to_string(length) +
                      " rows the update's spectral radius is " + radius_text(radius) +
                      ": the stored signal grows without bound; raise samples (now " +
                      std::to_string(settings_.samples) + ") or ridge, or lower tau");
}

}  // namespace continuous_ltm

MNEME_PLUGIN_WITH_FEATURES(continuous_ltm::ContinuousLtm, "org.mneme.continuous_ltm", "0.1.0",
                           MNEME_PLUGIN_CPP_FEATURES " " MNEME_GROUP_KERNEL " " MNEME_GROUP_RANDOM)
