// The state of a run from named tensors: restored by the memory that saved it, and carried over to
// another memory. Restoring and carrying are one path; restore() refuses what does not fit, carry()
// may leave it fresh.
#include <algorithm>
#include <utility>

#include "host/base/error.hpp"
#include "host/memory/stack/stack.hpp"
#include "host/memory/state/state_parts.hpp"
#include "host/memory/state/tier_state.hpp"
#include "host/memory/tier/tier.hpp"
#include "host/plugin/plugin_options.hpp"

namespace mneme::memory {
namespace {

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

// The tensors that belong to no tier, slot or queue that is carried or reset.
void note_dropped(const NamedState& saved, StateCarry& report) {
  std::vector<std::string> used = report.carried;
  for (const StateCarry::Reset& reset : report.reset) used.push_back(reset.name);
  for (const auto& entry : saved.tensors) {
    const std::string& tensor = entry.first;  // clang 14 captures no structured binding
    const bool is_used = std::ranges::any_of(used, [&](const std::string& name) {
      return tensor == name || tensor.starts_with(name + ".");
    });
    if (!is_used) report.dropped.push_back(tensor);
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

StackState Stack::restore_tiers(Phase phase, std::int64_t lanes, const StateParts& saved,
                                const std::vector<plugin::OptionChange>& changes,
                                std::optional<std::uint64_t> weights_version,
                                StateCarry& report) const {
  RunCounters counters = saved.counters;
  if (counters.lanes != lanes)
    refuse_state("another number of lanes", str(lanes), str(counters.lanes));
  counters.phase = phase;
  std::vector<TierState> states = new_states(phase, lanes);
  for (TierState& state : states) {
    const std::string& name = state.tier().name();
    if (saved.signatures.contains(name) && !plugin::is_changed(changes, name))
      state.restore(saved, weights_version, report);
  }
  return {std::move(counters), std::move(states)};
}

std::vector<plugin::OptionChange> Stack::changed_options(const StateParts& saved) const {
  plugin::TierOptions trained;
  for (const auto& [tier, text] : saved.options) {
    trained[tier] = plugin::parse_options(text, str("memory state: ", plugin::kSavedOptions, tier));
  }
  return changed_options(trained);
}

StackState Stack::restore(Phase phase, std::int64_t lanes, const NamedState& named) const {
  const StateParts saved = from_named(named);
  const std::vector<plugin::OptionChange> changes = changed_options(saved);
  if (!changes.empty()) plugin::throw_changed_options("memory state", changes, kRestoreHint);
  for (const auto& tier : tiers_) {
    const auto found = saved.signatures.find(tier->name());
    const std::string expected = state_signature(*tier, phase);
    if (found == saved.signatures.end())
      refuse_state("the saved state has no tier of this name", tier->name(), "none");
    if (found->second != expected)
      refuse_state(
          str("tier ", tier->name(), ": the saved state has other slots, queues or revisions"),
          expected, found->second);
  }
  StateCarry report;
  StackState state = restore_tiers(phase, lanes, saved, {}, weights_version_, report);
  if (report.reset.empty()) return state;
  const StateCarry::Reset& first = report.reset.front();
  throw_usage(
      ErrorText{.where = first.name,
                .failed = "the saved state does not fit: " + first.reason,
                .hint = "it is damaged, or was written with another version of the plugin"});
}

StackState Stack::carry(Phase phase, std::int64_t lanes, const NamedState& named,
                        config::Carry policy, StateCarry* report) const {
  const StateParts saved = from_named(named);
  const std::vector<plugin::OptionChange> changes = changed_options(saved);
  if (policy == config::Carry::kRefuse && !changes.empty()) {
    plugin::throw_changed_options("memory state", changes);
  }
  StateCarry made;
  for (const plugin::OptionChange& change : changes)
    made.reset.push_back({change.tier, change.text()});
  StackState state = restore_tiers(phase, lanes, saved, changes, {}, made);
  check_fits(made, policy);
  note_dropped(named, made);
  if (report != nullptr) *report = std::move(made);
  return state;
}

}  // namespace mneme::memory
