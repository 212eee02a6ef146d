#include "host/analyze/measures/alpha.hpp"

#include <cmath>

#include "host/base/error.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::analyze {
namespace {

constexpr const char* kAlpha = "memory.alpha";

[[noreturn]] void throw_alpha(const Place& place, const std::string& failed,
                              const std::string& expected, const std::string& got) {
  throw_run({.where = str("tier ", place.tier, ", layer ", place.layer, ", probe ", kAlpha),
             .failed = failed,
             .expected = expected,
             .got = got});
}

// The mean over heads of one lane's rows; empty when it lacks one. rows [M,H].
std::vector<double> means_of(const Place& place, const at::Tensor& rows) {
  const auto alpha = rows.accessor<double, 2>();
  std::vector<double> means;
  for (std::int64_t m = 0; m < alpha.size(0); ++m) {
    double sum = 0.0;
    for (std::int64_t h = 0; h < alpha.size(1); ++h) {
      const double value = alpha[m][h];
      if (std::isnan(value)) return {};
      constexpr double kRounding = 1e-4;  // of alphas that were computed in low precision
      if (value < -kRounding || value > 1.0 + kRounding) {
        throw_alpha(place, "is no weight", "numbers in [0, 1]", str(value));
      }
      sum += value;
    }
    means.push_back(sum / static_cast<double>(alpha.size(1)));
  }
  return means;
}

}  // namespace

const std::set<std::string, std::less<>>& AlphaByPlace::wanted_probes() {
  static const std::set<std::string, std::less<>> names = {kAlpha};
  return names;
}

void AlphaByPlace::add(const std::map<std::string, at::Tensor>& probes) {
  for (const auto& [key, tensor] : probes) {
    const std::optional<Place> place = place_of_probe(key, kAlpha);
    if (!place) continue;
    if (tensor.dim() != 3 || tensor.size(2) == 0) {
      throw_alpha(*place, "has the wrong shape", "[lanes, rows, heads]",
                  list_text(tensor.sizes().vec()));
    }
    const at::Tensor alpha = tensor.detach().to(at::kCPU, at::kDouble).contiguous();
    const auto rows = static_cast<std::size_t>(alpha.size(1));
    for (std::int64_t b = 0; rows > 0 && b < alpha.size(0); ++b) {
      const std::vector<double> means = means_of(*place, alpha[b]);
      Layer& layer = sums_[*place];
      if (means.empty() || rows < layer.alpha.size()) continue;
      if (rows > layer.alpha.size()) layer = {.alpha = std::vector<double>(rows), .segments = 0};
      for (std::size_t m = 0; m < rows; ++m) layer.alpha[m] += means[m];
      ++layer.segments;
    }
  }
}

std::map<Place, AlphaByPlace::Layer> AlphaByPlace::layers() const {
  std::map<Place, Layer> out;
  for (const auto& [place, sums] : sums_) {
    if (sums.segments == 0) continue;
    Layer& layer = out[place] = sums;
    for (double& alpha : layer.alpha) alpha /= static_cast<double>(sums.segments);
  }
  return out;
}

}  // namespace mneme::analyze
