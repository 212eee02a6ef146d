#include "host/analyze/measures/attention.hpp"

#include <algorithm>

#include "host/base/error.hpp"

namespace mneme::analyze {

AttentionHistogram::AttentionHistogram(std::int64_t bins) {
  if (bins < 1) throw_usage("attention histogram: bins: expected at least 1, got ", bins);
  edges_ = even_edges(static_cast<std::size_t>(bins));
}

void AttentionHistogram::add(const LayerView& view) {
  for (std::size_t h = 0; h < view.heads.size(); ++h) {
    Head& head = sums_[{view.place, static_cast<std::int64_t>(h)}];
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

std::map<HeadPlace, AttentionHistogram::Head> AttentionHistogram::heads() const {
  std::map<HeadPlace, Head> means = sums_;
  for (auto& [place, head] : means) {
    const auto queries = static_cast<double>(head.queries);
    for (double& mass : head.mass) mass /= queries;
    head.mean_place /= queries;
    head.mean_deviation /= queries;
  }
  return means;
}

std::map<std::int64_t, double> token_masses(std::span<const Density> densities,
                                            const MemorySpace& space) {
  const std::vector<double> masses = masses_between(densities, space.edges());
  std::map<std::int64_t, double> sums;
  for (std::size_t i = 0; i < masses.size(); ++i) sums[space.tokens()[i]] += masses[i];
  return sums;
}

void TokenAttention::add(const LayerView& view) {
  if (view.space.is_empty()) return;
  for (std::size_t h = 0; h < view.heads.size(); ++h) {
    Masses& masses = masses_[{view.place, static_cast<std::int64_t>(h)}];
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

std::map<HeadPlace, std::vector<AttendedToken>> TokenAttention::by_head(std::size_t count) const {
  std::map<HeadPlace, std::vector<AttendedToken>> out;
  for (const auto& [place, masses] : masses_) out[place] = largest(masses, count);
  return out;
}

std::vector<AttendedToken> TokenAttention::overall(std::size_t count) const {
  Masses sums;
  for (const auto& [place, masses] : masses_) {
    for (const auto& [at, mass] : masses) sums[at] += mass;
  }
  return largest(sums, count);
}

}  // namespace mneme::analyze
