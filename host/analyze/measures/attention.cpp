#include "host/analyze/measures/attention.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "host/analyze/measures/regression.hpp"
#include "host/base/error.hpp"
#include "host/base/random.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::analyze {

AttentionHistogram::AttentionHistogram(std::int64_t bins) {
  if (bins < 1) throw_usage("attention histogram: bins: expected at least 1, got ", bins);
  edges_ = even_edges(static_cast<std::size_t>(bins));
}

void AttentionHistogram::add(const LaneView& view) {
  for (std::size_t h = 0; h < view.heads.size(); ++h) {
    Head& head = sums_[{view.where, static_cast<std::int64_t>(h)}];
    head.mass.resize(edges_.size() - 1);
    const std::vector<double> masses = masses_between(view.heads[h], edges_);
    for (std::size_t i = 0; i < masses.size(); ++i) head.mass[i] += masses[i];
    for (const Density& density : view.heads[h]) {
      ++head.queries;
      head.mean_place += density.mean;
      head.mean_deviation += density.deviation;
    }
  }
}

std::map<TierHead, AttentionHistogram::Head> AttentionHistogram::heads() const {
  std::map<TierHead, Head> means = sums_;
  for (auto& [where, head] : means) {
    const auto queries = static_cast<double>(head.queries);
    for (double& mass : head.mass) mass /= queries;
    head.mean_place /= queries;
    head.mean_deviation /= queries;
  }
  return means;
}

std::map<std::int64_t, double> token_masses(std::span<const Density> densities,
                                            const TokenCells& space) {
  const std::vector<double> masses = masses_between(densities, space.edges());
  std::map<std::int64_t, double> sums;
  for (std::size_t i = 0; i < masses.size(); ++i) sums[space.tokens()[i]] += masses[i];
  return sums;
}

void TokenAttention::add(const LaneView& view) {
  if (view.space.is_empty()) return;
  for (std::size_t h = 0; h < view.heads.size(); ++h) {
    Masses& masses = masses_[{view.where, static_cast<std::int64_t>(h)}];
    for (const auto& [token, mass] : token_masses(view.heads[h], view.space)) {
      masses[{view.lane, token}] += mass;
    }
  }
}

std::vector<AttendedToken> TokenAttention::largest(const Masses& masses, std::size_t count) {
  std::vector<AttendedToken> tokens;
  double total = 0.0;
  for (const auto& [at, mass] : masses) {
    tokens.push_back({.lane = at.first, .token = at.second, .mass = mass});
    total += mass;
  }
  std::ranges::stable_sort(tokens, std::ranges::greater{}, &AttendedToken::mass);
  tokens.resize(std::min(tokens.size(), count));
  for (AttendedToken& token : tokens) token.share = total > 0.0 ? token.mass / total : 0.0;
  return tokens;
}

std::map<TierHead, std::vector<AttendedToken>> TokenAttention::by_head(std::size_t count) const {
  std::map<TierHead, std::vector<AttendedToken>> out;
  for (const auto& [where, masses] : masses_) out[where] = largest(masses, count);
  return out;
}

std::vector<AttendedToken> TokenAttention::overall(std::size_t count) const {
  Masses sums;
  for (const auto& [where, masses] : masses_) {
    for (const auto& [at, mass] : masses) sums[at] += mass;
  }
  return largest(sums, count);
}

namespace {

constexpr const char* kAlpha = "memory.alpha";

// The mean over heads of one lane's rows; empty when it lacks one. rows [M,H].
std::vector<double> means_of(const TierLayer& where, const at::Tensor& rows) {
  const auto alpha = rows.accessor<double, 2>();
  std::vector<double> means;
  for (std::int64_t m = 0; m < alpha.size(0); ++m) {
    double sum = 0.0;
    for (std::int64_t h = 0; h < alpha.size(1); ++h) {
      const double value = alpha[m][h];
      if (std::isnan(value)) return {};
      constexpr double kRounding = 1e-4;  // of alphas that were computed in low precision
      if (value < -kRounding || value > 1.0 + kRounding) {
        throw_probe(where, kAlpha, "is no weight", "numbers in [0, 1]", str(value));
      }
      sum += value;
    }
    means.push_back(sum / static_cast<double>(alpha.size(1)));
  }
  return means;
}

}  // namespace

std::set<std::string, std::less<>> AlphaByPlace::wanted_probes() { return {kAlpha}; }

void AlphaByPlace::add(const std::map<std::string, at::Tensor>& probes) {
  for (const auto& [key, tensor] : probes) {
    const std::optional<TierLayer> where = tier_layer_of_probe(key, kAlpha);
    if (!where) continue;
    if (tensor.dim() != 3 || tensor.size(2) == 0) {
      throw_probe(*where, kAlpha, "has the wrong shape", "[lanes, rows, heads]",
                  list_text(tensor.sizes().vec()));
    }
    const at::Tensor alpha = tensor.detach().to(at::kCPU, at::kDouble).contiguous();
    const auto rows = static_cast<std::size_t>(alpha.size(1));
    for (std::int64_t b = 0; rows > 0 && b < alpha.size(0); ++b) {
      const std::vector<double> means = means_of(*where, alpha[b]);
      Layer& layer = sums_[*where];
      if (means.empty() || rows < layer.alpha.size()) continue;
      if (rows > layer.alpha.size()) layer = {.alpha = std::vector<double>(rows), .segments = 0};
      for (std::size_t m = 0; m < rows; ++m) layer.alpha[m] += means[m];
      ++layer.segments;
    }
  }
}

std::map<TierLayer, AlphaByPlace::Layer> AlphaByPlace::layers() const {
  std::map<TierLayer, Layer> out;
  for (const auto& [where, sums] : sums_) {
    if (sums.segments == 0) continue;
    Layer& layer = out[where] = sums;
    for (double& alpha : layer.alpha) alpha /= static_cast<double>(sums.segments);
  }
  return out;
}

namespace {

constexpr const char* kMass = "memory.mass";
constexpr const char* kCounts = "memory.regions";

using Counts = std::array<std::int64_t, 3>;

std::int64_t total_of(const Counts& counts) {
  return std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
}

// What each lane has in each region.
std::vector<Counts> counts_of(const std::map<std::string, at::Tensor>& probes,
                              const TierLayer& where, const at::Tensor& mass) {
  const auto found = probes.find(str(where.tier, '.', where.layer, '.', kCounts));
  const auto refuse = [&](const std::string& expected, const std::string& got) {
    throw_probe(where, kCounts, str("does not go with ", kMass), expected, got);
  };
  if (found == probes.end()) refuse("three numbers for each lane", "nothing");
  const at::Tensor& given = found->second;
  if (mass.dim() != 2 || given.sizes() != at::IntArrayRef({mass.size(0), 3})) {
    refuse("[lanes, 3] for a mass [lanes, places]",
           str(list_text(given.sizes().vec()), " for a mass of ", list_text(mass.sizes().vec())));
  }
  const at::Tensor numbers = given.to(at::kCPU, at::kLong).contiguous();
  const std::int64_t* const first = numbers.const_data_ptr<std::int64_t>();
  std::vector<Counts> lanes(static_cast<std::size_t>(mass.size(0)));
  for (std::size_t b = 0; b < lanes.size(); ++b) {
    std::copy_n(first + 3 * b, 3, lanes[b].begin());
    if (std::ranges::min(lanes[b]) < 0 || total_of(lanes[b]) > mass.size(1)) {
      refuse(str("at most ", mass.size(1), " places together"),
             str("lane ", b, " with ", lanes[b][0], " + ", lanes[b][1], " + ", lanes[b][2]));
    }
  }
  return lanes;
}

}  // namespace

double MassByRegion::Layer::total(std::size_t region) const {
  const auto begin = share.begin() + first(region);
  return std::accumulate(begin, begin + places.at(region), 0.0);
}

std::int64_t MassByRegion::Layer::first(std::size_t region) const {
  return std::accumulate(places.begin(), places.begin() + static_cast<std::ptrdiff_t>(region),
                         std::int64_t{0});
}

std::set<std::string, std::less<>> MassByRegion::wanted_probes() { return {kMass, kCounts}; }

void MassByRegion::add(const std::map<std::string, at::Tensor>& probes) {
  for (const auto& [key, tensor] : probes) {
    const std::optional<TierLayer> where = tier_layer_of_probe(key, kMass);
    if (!where) continue;
    const std::vector<Counts> lanes = counts_of(probes, *where, tensor);
    const at::Tensor mass = tensor.detach().to(at::kCPU, at::kDouble).contiguous();
    const auto count = static_cast<std::size_t>(mass.size(1));
    const double* shares = mass.const_data_ptr<double>();
    for (const Counts& places : lanes) {
      const double* const own = std::exchange(shares, shares + count);
      if (total_of(places) < mass.size(1)) continue;
      Layer& layer = sums_[*where];
      if (count < layer.share.size()) continue;
      if (places != layer.places) {
        layer = {.places = places, .share = std::vector<double>(count), .segments = 0};
      }
      for (std::size_t i = 0; i < count; ++i) layer.share[i] += own[i];
      ++layer.segments;
    }
  }
}

std::map<TierLayer, MassByRegion::Layer> MassByRegion::layers() const {
  std::map<TierLayer, Layer> out = sums_;
  for (auto& [where, layer] : out) {
    for (double& share : layer.share) share /= static_cast<double>(layer.segments);
  }
  return out;
}

RowSource autoregressive(std::int64_t width, double coefficient, std::uint64_t seed) {
  if (!(std::abs(coefficient) < 1.0)) {
    throw_usage({.where = "autoregressive rows",
                 .failed = "the rows would grow without bound",
                 .expected = "a coefficient between -1 and 1",
                 .got = format_exact(coefficient)});
  }
  const double scale = std::sqrt(1.0 - coefficient * coefficient);
  std::vector<double> last;
  return [=, random = Random(seed, {"analyze", "rows"})](std::int64_t count) mutable {
    at::Tensor rows = torch::empty({count, width}, at::kDouble);
    double* out = rows.mutable_data_ptr<double>();
    for (std::int64_t t = 0; t < count; ++t) {
      const bool is_first = last.empty();
      last.resize(static_cast<std::size_t>(width));
      for (double& x : last) {
        const double noise = random.normal();
        x = is_first ? noise : coefficient * x + scale * noise;
        *out++ = x;
      }
    }
    return rows;
  };
}

RowSource given_rows(at::Tensor rows) {
  std::int64_t next = 0;
  return [rows = std::move(rows), next](std::int64_t count) mutable {
    if (next + count > rows.size(0)) {
      throw_usage({.where = "given rows",
                   .failed = "there are too few",
                   .expected = str("at least ", next + count),
                   .got = str(rows.size(0)),
                   .hint = "ask for shorter segments or fewer updates"});
    }
    next += count;
    return rows.narrow(0, next - count, count).to(at::kDouble);
  };
}

}  // namespace mneme::analyze
