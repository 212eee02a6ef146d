// The state of a run from named tensors: restored by the memory that saved it, and carried over to
// another memory. Restoring and carrying are one path; restore() refuses what does not fit, carry()
// may leave it fresh.
#include <algorithm>
#include <charconv>
#include <map>
#include <sstream>
#include <system_error>
#include <utility>

#include "host/base/error.hpp"
#include "host/memory/stack/stack.hpp"
#include "host/memory/state/stack_state.hpp"
#include "host/memory/state/tier_state.hpp"
#include "host/memory/tier/tier.hpp"
#include "host/plugin/plugin_options.hpp"

namespace mneme::memory {
namespace {

const std::string& metadata_at(const StackState::Saved& saved, const std::string& key) {
  const auto found = saved.metadata.find(key);
  if (found == saved.metadata.end())
    throw_usage(ErrorText{.where = "memory state",
                          .failed = str("the saved state lacks \"", key, "\""),
                          .hint = "the checkpoint was written by another program or cut short"});
  return found->second;
}

template <typename T>
T parse_count(const std::string& key, const std::string& text) {
  uint64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, value);
  if (result.ec != std::errc() || result.ptr != end || !std::in_range<T>(value))
    throw_usage(ErrorText{.where = "memory state",
                          .failed = str("the saved \"", key, "\" holds something else"),
                          .expected = "counts",
                          .got = str('"', text, '"'),
                          .hint = "the checkpoint is damaged: use an older one"});
  return static_cast<T>(value);
}

// The lanes' counts "3,0,5".
template <typename T>
std::vector<T> lanes_at(const StackState::Saved& saved, const std::string& key, int64_t lanes) {
  std::vector<T> out;
  std::istringstream in(metadata_at(saved, key));
  for (std::string part; std::getline(in, part, ',');) out.push_back(parse_count<T>(key, part));
  if (static_cast<int64_t>(out.size()) != lanes)
    throw_usage(ErrorText{.where = "memory state",
                          .failed = str("the saved \"", key, "\" has another number of lanes"),
                          .expected = str(lanes),
                          .got = str(out.size()),
                          .hint = "the checkpoint is damaged: use an older one"});
  return out;
}

constexpr const char* kRestoreHint =
    "resume with the experiment and plugins that wrote the checkpoint";

[[noreturn]] void refuse_state(const std::string& failed, const std::string& expected,
                               const std::string& got) {
  throw_usage(ErrorText{.where = "memory state",
                        .failed = failed,
                        .expected = expected,
                        .got = got,
                        .hint = kRestoreHint});
}

FindTensor finder(const std::map<std::string, at::Tensor>& by_name) {
  return [&by_name](const std::string& name) {
    const auto found = by_name.find(name);
    return found == by_name.end() ? at::Tensor() : found->second;
  };
}

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

RunCounters saved_counters(Phase phase, int64_t lanes, const StackState::Saved& saved) {
  if (metadata_at(saved, "lanes") != str(lanes))
    refuse_state("another number of lanes", str(lanes), metadata_at(saved, "lanes"));
  RunCounters counters{.phase = phase, .lanes = lanes};
  counters.segments = parse_count<int64_t>("segments", metadata_at(saved, "segments"));
  counters.previous_length =
      parse_count<int64_t>("previous_length", metadata_at(saved, "previous_length"));
  counters.reset = lanes_at<uint8_t>(saved, "reset", lanes);
  counters.streams = lanes_at<uint64_t>(saved, "streams", lanes);
  counters.tokens = lanes_at<int64_t>(saved, "tokens", lanes);
  return counters;
}

}  // namespace

StackState Stack::restore_tiers(Phase phase, int64_t lanes, const StackState::Saved& saved,
                                const std::vector<plugin::OptionChange>& changes,
                                StateCarry& report) const {
  RunCounters counters = saved_counters(phase, lanes, saved);
  std::vector<TierState> states = new_states(phase, lanes);
  const std::map<std::string, at::Tensor> by_name(saved.tensors.begin(), saved.tensors.end());
  for (TierState& state : states) {
    const std::string& name = state.tier().name();
    const auto signature = saved.metadata.find("tier." + name);
    if (signature == saved.metadata.end() || plugin::is_changed(changes, name)) continue;
    state.restore(name, revisions_of(signature->second), finder(by_name), report);
  }
  return {std::move(counters), std::move(states)};
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

StackState Stack::restore(Phase phase, int64_t lanes, const StackState::Saved& saved) const {
  const std::vector<plugin::OptionChange> changes = changed_options(saved);
  if (!changes.empty()) plugin::throw_changed_options("memory state", changes, kRestoreHint);
  for (const auto& tier : tiers_) {
    const auto found = saved.metadata.find("tier." + tier->name());
    const std::string expected = state_signature(*tier, phase);
    if (found == saved.metadata.end())
      refuse_state("the saved state has no tier of this name", tier->name(), "none");
    if (found->second != expected)
      refuse_state(
          str("tier ", tier->name(), ": the saved state has other slots, queues or revisions"),
          expected, found->second);
  }
  StateCarry report;
  StackState state = restore_tiers(phase, lanes, saved, {}, report);
  if (report.reset.empty()) return state;
  const StateCarry::Reset& first = report.reset.front();
  throw_usage(
      ErrorText{.where = first.name,
                .failed = "the saved state does not fit: " + first.reason,
                .hint = "it is damaged, or was written with another version of the plugin"});
}

StackState Stack::carry(Phase phase, int64_t lanes, const StackState::Saved& saved,
                        config::Carry policy, StateCarry* report) const {
  const std::vector<plugin::OptionChange> changes = changed_options(saved);
  if (policy == config::Carry::kRefuse && !changes.empty()) {
    plugin::throw_changed_options("memory state", changes);
  }
  StateCarry made;
  for (const plugin::OptionChange& change : changes)
    made.reset.push_back({change.tier, change.text()});
  StackState state = restore_tiers(phase, lanes, saved, changes, made);
  check_fits(made, policy);
  note_dropped(saved, made);
  if (report != nullptr) *report = std::move(made);
  return state;
}

std::vector<std::pair<std::string, at::Tensor>> Stack::save_projections(
    const StackState& state) const {
  std::vector<std::pair<std::string, at::Tensor>> out;
  for (const TierState& tier : state.tiers())
    tier.save_projections(tier.tier().name(), weights_version_, out);
  return out;
}

void Stack::restore_projections(StackState& state, const StackState::Saved& saved) const {
  const std::map<std::string, at::Tensor> by_name(saved.tensors.begin(), saved.tensors.end());
  for (const TierState& tier : state.tiers()) {
    tier.restore_projections(tier.tier().name(), weights_version_, finder(by_name));
  }
}

}  // namespace mneme::memory
