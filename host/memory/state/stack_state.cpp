// The state of a run: copied, reset, detached, some of its lanes, as named tensors. A fresh and a
// restored one: stack/.
#include "host/memory/state/stack_state.hpp"

#include <cstdint>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "host/base/error.hpp"
#include "host/memory/state/state_parts.hpp"
#include "host/memory/state/tier_state.hpp"
#include "host/memory/tier/tier.hpp"
#include "host/plugin/plugin_options.hpp"

namespace mneme::memory {

StackState::StackState() = default;
StackState::~StackState() = default;
StackState::StackState(StackState&&) noexcept = default;
StackState& StackState::operator=(StackState&&) noexcept = default;

StackState::StackState(RunCounters counters, std::vector<TierState> tiers)
    : counters_(std::move(counters)), tiers_(std::move(tiers)) {}

StackState StackState::clone() const { return {counters_, tiers_}; }

void StackState::reset(const std::vector<std::uint8_t>& lanes, bool do_others_go_on) {
  if (static_cast<std::int64_t>(lanes.size()) != counters_.lanes)
    throw_run("reset: expected ", counters_.lanes, " flags, got ", lanes.size());
  for (std::size_t b = 0; b < lanes.size(); ++b)
    counters_.reset[b] = static_cast<std::uint8_t>(counters_.reset[b] | (lanes[b] != 0 ? 1 : 0));
  counters_.do_others_go_on = do_others_go_on;
}

void StackState::reset_all() { counters_.reset.assign(counters_.reset.size(), 1); }

void StackState::cut_graph() {
  if (is_graph_boundary()) return;
  for (TierState& tier : tiers_) tier.detach(true);
  counters_.graph_segments = 0;
}

std::int64_t StackState::bytes() const {
  return std::accumulate(tiers_.begin(), tiers_.end(), std::int64_t{0},
                         [](std::int64_t sum, const auto& tier) { return sum + tier.bytes(); });
}

std::int64_t StackState::cached_projection_bytes() const {
  return std::accumulate(
      tiers_.begin(), tiers_.end(), std::int64_t{0},
      [](std::int64_t sum, const auto& tier) { return sum + tier.cached_projection_bytes(); });
}

void StackState::select(const std::vector<std::int64_t>& lanes) {
  for (const std::int64_t lane : lanes) {
    if (lane < 0 || lane >= counters_.lanes)
      throw_run("select: lane ", lane, " does not exist: there are ", counters_.lanes);
  }
  for (TierState& tier : tiers_) tier.select(lanes);
  const auto pick = [&](const auto& from) {
    auto out = from;
    out.clear();
    for (const std::int64_t lane : lanes) out.push_back(from[static_cast<std::size_t>(lane)]);
    return out;
  };
  counters_.reset = pick(counters_.reset);
  counters_.streams = pick(counters_.streams);
  counters_.tokens = pick(counters_.tokens);
  counters_.lanes = static_cast<std::int64_t>(lanes.size());
}

void StackState::commit(std::vector<TierState> tiers, std::vector<std::int64_t> tokens,
                        std::int64_t length, bool is_detached) {
  tiers_ = std::move(tiers);
  counters_.tokens = std::move(tokens);
  counters_.graph_segments = is_detached ? 0 : counters_.graph_segments + 1;
  ++counters_.segments;
  counters_.previous_length = length;
  counters_.reset.assign(counters_.reset.size(), 0);
  counters_.do_others_go_on = false;
}

NamedState StackState::save(std::optional<std::uint64_t> weights_version) const {
  StateParts saved{.counters = counters_};
  for (const TierState& state : tiers_) {
    const Tier& tier = state.tier();
    saved.signatures[tier.name()] = state_signature(tier, counters_.phase);
    const config::Value options = plugin::trained_options(tier.option_specs(), tier.options());
    if (!options.members().empty()) saved.options[tier.name()] = plugin::to_text(options);
    state.add_to(saved, weights_version);
  }
  return to_named(saved);
}

}  // namespace mneme::memory
