// StackState, except saving and restoring (stack.cpp).

#include <algorithm>
#include <numeric>
#include <sstream>

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
  out.streams_ = streams_;
  out.tokens_ = tokens_;
  for (const auto& tier : tiers_) out.tiers_.push_back(std::make_unique<TierState>(*tier));
  return out;
}

void StackState::reset(const std::vector<uint8_t>& lanes) {
  if (static_cast<int64_t>(lanes.size()) != lanes_)
    throw_run("reset: expected ", lanes_, " flags, got ", lanes.size());
  for (std::size_t b = 0; b < lanes.size(); ++b)
    reset_[b] = static_cast<uint8_t>(reset_[b] | (lanes[b] != 0 ? 1 : 0));
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

// The state with which one memory takes over from another.

namespace {

// Revisions by name of a saved tier's signature "<plugin id> name:revision ...".
std::map<std::string, std::string> revisions_of(const std::string& signature) {
  std::map<std::string, std::string> out;
  std::istringstream in(signature);
  std::string part;
  in >> part;
  while (in >> part) {
    const std::size_t colon = part.rfind(':');
    if (colon != std::string::npos) out[part.substr(0, colon)] = part.substr(colon + 1);
  }
  return out;
}

// True when a tensor belongs to the slot or queue of this name.
bool belongs(const std::string& tensor, const std::string& name) {
  return tensor == name || tensor.starts_with(name + ".");
}

void note_dropped(const StackState::Saved& saved, StateCarry& report) {
  for (const auto& entry : saved.tensors) {
    const std::string& tensor = entry.first;  // clang 14 captures no structured binding
    const bool is_carried =
        std::any_of(report.carried.begin(), report.carried.end(),
                    [&](const std::string& name) { return belongs(tensor, name); });
    const bool is_reset =
        std::any_of(report.reset.begin(), report.reset.end(),
                    [&](const StateCarry::Reset& reset) { return belongs(tensor, reset.name); });
    if (!is_carried && !is_reset) report.dropped.push_back(tensor);
  }
}

void check_fits(const StateCarry& report, config::Carry policy) {
  if (report.reset.empty() || policy == config::Carry::kReset) return;
  std::vector<std::string> lines;
  for (const StateCarry::Reset& reset : report.reset)
    lines.push_back(str("  ", reset.name, ": ", reset.reason));
  throw_usage(ErrorText{.where = "memory state",
                        .failed = str("it does not fit the new memory:\n", join(lines, "\n"), "\n"),
                        .hint = "memory.carry = \"reset\" resets what does not fit"});
}

}  // namespace

StackState Stack::carry(Phase phase, int64_t lanes, const StackState::Saved& saved,
                        config::Carry policy, StateCarry* report) const {
  StackState state = restore_counters(phase, lanes, saved);
  const std::map<std::string, at::Tensor> by_name(saved.tensors.begin(), saved.tensors.end());
  const auto find = [&](const std::string& name) {
    const auto at = by_name.find(name);
    return at == by_name.end() ? at::Tensor() : at->second;
  };
  const std::vector<plugin::OptionChange> changes = changed_options(saved);
  if (policy == config::Carry::kRefuse && !changes.empty()) {
    plugin::throw_changed_options("memory state", changes);
  }
  StateCarry made;
  for (const plugin::OptionChange& change : changes)
    made.reset.push_back({change.tier, change.text()});
  for (const auto& tier : state.tiers_) {
    const std::string& name = tier->tier().name();
    const auto signature = saved.metadata.find("tier." + name);
    if (signature == saved.metadata.end() || plugin::is_changed(changes, name)) continue;
    tier->carry(name, revisions_of(signature->second), find, made);
  }
  check_fits(made, policy);
  note_dropped(saved, made);
  if (report != nullptr) *report = std::move(made);
  return state;
}

const std::vector<config::OptionSpec>& Stack::option_specs(std::size_t tier) const {
  return tiers_.at(tier)->option_specs();
}

plugin::TierOptions Stack::trained_options() const {
  plugin::TierOptions out;
  for (const auto& tier : tiers_) {
    out[tier->name()] = plugin::trained_options(tier->option_specs(), tier->options());
  }
  return out;
}

std::vector<plugin::OptionChange> Stack::changed_options(const plugin::TierOptions& trained) const {
  std::vector<plugin::OptionChange> out;
  for (const auto& tier : tiers_) {
    const auto found = trained.find(tier->name());
    if (found == trained.end()) continue;
    const std::vector<plugin::OptionChange> changes =
        plugin::changed_options(tier->name(), tier->option_specs(), found->second, tier->options());
    out.insert(out.end(), changes.begin(), changes.end());
  }
  return out;
}

std::vector<plugin::OptionChange> Stack::changed_options(const StackState::Saved& saved) const {
  plugin::TierOptions trained;
  for (const auto& [key, text] : saved.metadata) {
    if (!key.starts_with(plugin::kSavedOptions)) continue;
    trained[key.substr(plugin::kSavedOptions.size())] =
        plugin::parse_options(text, "memory state: " + key);
  }
  return changed_options(trained);
}

}  // namespace mneme::memory
