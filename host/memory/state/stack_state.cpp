// The state of a run: fresh, copied, reset, detached, some of its lanes. Saving and restoring:
// stack_state_saved.cpp.
#include "host/memory/state/stack_state.hpp"

#include <cstdint>
#include <memory>
#include <numeric>

#include "host/base/error.hpp"
#include "host/memory/stack.hpp"
#include "host/memory/state/tier_state.hpp"
#include "host/memory/tier.hpp"

namespace mneme::memory {

StackState::StackState() = default;
StackState::~StackState() = default;
StackState::StackState(StackState&&) noexcept = default;
StackState& StackState::operator=(StackState&&) noexcept = default;

StackState StackState::clone() const {
  StackState out;
  out.phase_ = phase_;
  out.lanes_ = lanes_;
  out.segments_ = segments_;
  out.previous_length_ = previous_length_;
  out.graph_segments_ = graph_segments_;
  out.reset_ = reset_;
  out.do_others_go_on_ = do_others_go_on_;
  out.streams_ = streams_;
  out.tokens_ = tokens_;
  for (const auto& tier : tiers_) out.tiers_.push_back(std::make_unique<TierState>(*tier));
  return out;
}

void StackState::reset(const std::vector<uint8_t>& lanes, bool others_go_on) {
  if (static_cast<int64_t>(lanes.size()) != lanes_)
    throw_run("reset: expected ", lanes_, " flags, got ", lanes.size());
  for (std::size_t b = 0; b < lanes.size(); ++b)
    reset_[b] = static_cast<uint8_t>(reset_[b] | (lanes[b] != 0 ? 1 : 0));
  do_others_go_on_ = others_go_on;
}

void StackState::reset_all() { reset_.assign(reset_.size(), 1); }

void StackState::cut_graph() {
  if (is_graph_boundary()) return;
  for (const auto& tier : tiers_) tier->detach(true);
  graph_segments_ = 0;
}

int64_t StackState::bytes() const {
  return std::accumulate(tiers_.begin(), tiers_.end(), int64_t{0},
                         [](int64_t sum, const auto& tier) { return sum + tier->bytes(); });
}

int64_t StackState::cached_projection_bytes() const {
  return std::accumulate(
      tiers_.begin(), tiers_.end(), int64_t{0},
      [](int64_t sum, const auto& tier) { return sum + tier->cached_projection_bytes(); });
}

void StackState::select(const std::vector<int64_t>& lanes) {
  for (const int64_t lane : lanes) {
    if (lane < 0 || lane >= lanes_)
      throw_run("select: lane ", lane, " does not exist: there are ", lanes_);
  }
  for (auto& tier : tiers_) tier->select(lanes);
  const auto pick = [&](const auto& from) {
    auto out = from;
    out.clear();
    for (const int64_t lane : lanes) out.push_back(from[static_cast<std::size_t>(lane)]);
    return out;
  };
  reset_ = pick(reset_);
  streams_ = pick(streams_);
  tokens_ = pick(tokens_);
  lanes_ = static_cast<int64_t>(lanes.size());
}

std::vector<std::string> Stack::slots_without_lanes() const {
  std::vector<std::string> out;
  for (const auto& tier : tiers_) {
    for (const SlotDecl& slot : tier->instance(Phase::kTraining).slots) {
      if (!slot.has_lanes() && !slot.is_segment_lifetime)
        out.push_back(str(tier->name(), '.', slot.name));
    }
  }
  return out;
}

StackState Stack::new_state(Phase phase, int64_t lanes) const {
  if (lanes < 1) throw_usage("a run needs at least one lane, got ", lanes);
  StackState state;
  state.phase_ = phase;
  state.lanes_ = lanes;
  state.reset_.assign(static_cast<std::size_t>(lanes), 1);
  state.streams_.resize(static_cast<std::size_t>(lanes));
  state.tokens_.assign(static_cast<std::size_t>(lanes), 0);
  std::iota(state.streams_.begin(), state.streams_.end(), uint64_t{0});
  for (const auto& tier : tiers_)
    state.tiers_.push_back(std::make_unique<TierState>(*tier, phase, lanes, backbone_));
  return state;
}

}  // namespace mneme::memory
