// The configured tiers of a memory: plugins, instances, parameters. One stack serves all runs; the
// state of a run is a StackState, the hooks of one segment are a SegmentHooks (docs/design.md,
// "State").
#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "host/config/experiment.hpp"
#include "host/config/options.hpp"
#include "host/memory/interface/backbone_interface.hpp"
#include "host/memory/state/stack_state.hpp"
#include "host/memory/tier/tier_parameter.hpp"
#include "host/plugin/plugin_options.hpp"
#include "host/plugin/python/wrap.hpp"

namespace mneme::plugin {
class PluginLoader;  // loader.hpp
}  // namespace mneme::plugin

namespace mneme::memory {

struct StateParts;   // state/state_parts.hpp
class Tier;          // tier/tier.hpp
struct TierOutline;  // tier_outline.hpp

// Identity of the code that ran, for reports and checkpoints.
struct TierIdentity {
  std::string id, version, path, sha256, compiler, commit;
  bool is_dirty = false;
  plugin::PythonVersions python = {};  // of a memory in Python
  // Options that the tier leaves at their defaults, with these as TOML writes them.
  std::map<std::string, std::string> defaults = {};
};

// Error (kUsage): a tier cannot say which documents its rows are of (Stack::require_documents).
[[noreturn]] void refuse_documents(const std::string& tier, const std::string& why);

class Stack {
 public:
  // Loads the plugins, creates the instances and initialises the parameters (unless
  // backbone.draws_parameters is false). Errors: Error(kPlugin | kUsage) naming file, line and what
  // to do.
  Stack(const config::MemoryConfig& memory, const BackboneInfo& backbone,
        plugin::PluginLoader& loader);
  ~Stack();
  Stack(const Stack&) = delete;
  Stack& operator=(const Stack&) = delete;

  [[nodiscard]] const BackboneInfo& backbone() const { return backbone_; }
  [[nodiscard]] bool is_empty() const { return tiers_.empty(); }
  // In stack order: the nearest memory first.
  [[nodiscard]] const std::vector<std::unique_ptr<Tier>>& tiers() const { return tiers_; }
  [[nodiscard]] std::vector<TierIdentity> identities() const;
  [[nodiscard]] const std::vector<TierParameter>& parameters() const { return parameters_; }
  // Draws the initial values of these parameters; the caller then calls weights_changed().
  void draw_parameters(const std::vector<std::string>& names);
  // The layers whose attention a tier replaces, for backbone::ModelSetup; and that tier, or null.
  [[nodiscard]] ReplacedLayers replaced_layers() const;
  [[nodiscard]] const Tier* replacing_tier(std::int64_t layer) const;
  // Rows that the tiers' contexts hold at most, summed over tiers (key same_length).
  [[nodiscard]] std::int64_t context_rows(Phase phase) const;
  // The riders among them, which pass through the layers with every segment.
  [[nodiscard]] std::int64_t rider_rows(Phase phase) const;
  // Of a memory that is its newest rows and nothing else, one tier with one queue that is its whole
  // context: the number of these rows. 0 = another memory.
  [[nodiscard]] std::int64_t cache_rows(Phase phase) const;
  // Every optimiser step, load of weights and swap calls it: cached projections of older weights
  // are dropped.
  void weights_changed() { ++weights_version_; }
  [[nodiscard]] std::uint64_t weights_version() const { return weights_version_; }
  // Called when this stack replaces `retired`: projections cached under that one become outdated.
  void succeed(const Stack& retired) {
    weights_version_ = std::max(weights_version_, retired.weights_version_ + 1);
  }

  // What the tiers declare, in stack order, with the bytes of states of these numbers of lanes.
  [[nodiscard]] std::vector<TierOutline> outlines(std::int64_t train_lanes,
                                                  std::int64_t eval_lanes) const;

  // Whether a tier declares auxiliary losses, or does not say which it has.
  [[nodiscard]] bool has_losses() const;
  // "<index>.<plugin id>.<slot>" of every slot of training that outlives a segment and has no
  // lanes.
  [[nodiscard]] std::vector<std::string> slots_without_lanes() const;

  [[nodiscard]] StackState new_state(Phase phase, std::int64_t lanes) const;
  // Restores what save() gave; keys and values of blocks count as made under the present weights.
  // Errors: Error(kUsage) for another plugin, revision or shape, and for other trained options.
  [[nodiscard]] StackState restore(Phase phase, std::int64_t lanes, const NamedState& saved) const;
  // Error (kUsage) where tokens may not see other documents (SegmentInput::documents) and a tier
  // reads or has riders: what these are made of has no document.
  void require_documents() const;
  // Longest segment that every tier serves; 0 = any.
  [[nodiscard]] std::int64_t longest_segment(Phase phase) const;
  // The state for continuing a run of another stack, whose state was saved: slots and queues of
  // tiers that both stacks have under one name (index and plugin id) are carried where name,
  // revision and shape agree; extents that a slot declares as MNEME_ANY and the number of a queue's
  // rows do not count, a smaller capacity keeps the newest rows. A tier that only this stack has
  // starts with a fresh state. What does not fit, and everything of a tier with other trained
  // options, is refused, or with Carry::kReset gets a fresh state; `report` (may be null) lists it.
  // Counters of lanes and segments are always taken over. Errors: Error(kUsage) listing what does
  // not fit, and for another number of lanes.
  [[nodiscard]] StackState carry(Phase phase, std::int64_t lanes, const NamedState& saved,
                                 config::Carry policy, StateCarry* report = nullptr) const;
  // The values of the trained options: those that parameters and state depend on.
  [[nodiscard]] plugin::TierOptions trained_options() const;
  // The differences between these values and those under which parameters or a state were made.
  [[nodiscard]] std::vector<plugin::OptionChange> changed_options(
      const plugin::TierOptions& trained) const;

 private:
  [[nodiscard]] std::vector<plugin::OptionChange> changed_options(const StateParts& saved) const;
  [[nodiscard]] std::vector<TierState> new_states(Phase phase, std::int64_t lanes) const;
  // What fits of every tier whose trained options are not among `changes`; `report` lists it.
  // `weights_version`: of the projections; none = without them.
  [[nodiscard]] StackState restore_tiers(Phase phase, std::int64_t lanes, const StateParts& saved,
                                         const std::vector<plugin::OptionChange>& changes,
                                         std::optional<std::uint64_t> weights_version,
                                         StateCarry& report) const;

  BackboneInfo backbone_;
  std::vector<std::unique_ptr<Tier>> tiers_;
  std::vector<TierParameter> parameters_;
  std::uint64_t weights_version_ = 1;
};

}  // namespace mneme::memory
