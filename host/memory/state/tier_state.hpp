// The state of one tier in one run: slots and queues, and the rows that wait to be absorbed.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "host/memory/interface/rows.hpp"
#include "host/memory/state/stack_state.hpp"
#include "host/memory/tier/tier.hpp"
#include "mneme/plugin.h"

namespace mneme::memory {

struct StateParts;  // state_parts.hpp

// Slots and queues of one scope: a served layer, or the model. Entries of the other scope stay
// unused.
struct ScopeState {
  std::vector<at::Tensor> slots;  // by the slot's place
  std::vector<RowsQueue> queues;  // by the queue's place
  RowsQueue waiting;              // rows that wait until the tier absorbs; layers only
};

// Rows of zeros for `lanes` lanes, as a queue keeps them: its kind, attributes and dtypes.
Rows zero_rows(const QueueDecl& decl, std::int64_t count, std::int64_t lanes,
               const BackboneInfo& backbone);

// "<plugin id> slot:revision ... queue:revision": equal when a saved state may be restored.
std::string state_signature(const Tier& tier, Phase phase);

class TierState {
 public:
  // A fresh state of `lanes` lanes.
  TierState(const Tier& tier, Phase phase, std::int64_t lanes, const BackboneInfo& backbone);

  [[nodiscard]] const Tier& tier() const { return *tier_; }
  [[nodiscard]] const Instance& instance() const { return *instance_; }
  ScopeState& scope(bool is_model_scope, std::int64_t served_index) {
    return is_model_scope ? model_ : layers_[static_cast<std::size_t>(served_index)];
  }
  ScopeState& layer(std::int64_t served_index) {
    return layers_[static_cast<std::size_t>(served_index)];
  }

  // Puts the lanes with reset[b] != 0 back to their start. With a graph, gradients of the other
  // lanes and of start parameters stay. `do_others_go_on`: see StackState::reset.
  void reset(const std::vector<std::uint8_t>& reset, bool do_others_go_on = false);
  // Sets slots of lifetime segment to their start value: when a segment begins, and when it ends,
  // so that no graph and no grown extent outlives it.
  void clear_segment_slots();
  // Detaches `stop` slots; `through` slots too when `cut_through`.
  void detach(bool cut_through);
  void select(const std::vector<std::int64_t>& lanes);
  [[nodiscard]] std::int64_t bytes() const;
  [[nodiscard]] std::int64_t cached_projection_bytes() const;

  // Adds the tier's entries; a block's projections with this version of the weights alone.
  void add_to(StateParts& out, std::optional<std::uint64_t> weights_version) const;
  // Takes what fits from a saved state with a tier of this name; the rest stays unchanged, and
  // `report` lists both. Projections count as made under these weights; none = they are left out.
  // Errors: Error(kUsage) for rows that do not agree among themselves, and for projections that do
  // not fit their rows.
  void restore(const StateParts& saved, std::optional<std::uint64_t> weights_version,
               StateCarry& report);

 private:
  [[nodiscard]] at::Tensor start_value(const SlotDecl& decl, std::int64_t served_index) const;
  void fill_queue_start(ScopeState& scope, std::int64_t queue);
  // Columns for the rows that a lane starts with, invalid in every lane.
  void make_room_for_start(RowsQueue& queue, const QueueDecl& decl) const;
  // on_slot(name, declaration, value) and on_queue(name, declaration, queue) for what a saved state
  // holds, by the names of StateParts::entries; the declaration is null for waiting rows.
  template <typename Self, typename OnSlot, typename OnQueue>
  static void for_each_saved(Self& self, OnSlot on_slot, OnQueue on_queue);
  // f(declaration, value, served layer or -1) for the slots of all scopes.
  template <typename F>
  void for_each_slot(F f);
  // f(scope, is it the model's, served layer or -1), for the model and each served layer.
  template <typename Self, typename F>
  static void for_each_scope(Self& self, F f) {
    f(self.model_, true, std::int64_t{-1});
    for (std::size_t i = 0; i < self.layers_.size(); ++i)
      f(self.layers_[i], false, static_cast<std::int64_t>(i));
  }

  const Tier* tier_;
  const Instance* instance_;
  std::int64_t lanes_;
  BackboneInfo backbone_;
  ScopeState model_;
  std::vector<ScopeState> layers_;
};

}  // namespace mneme::memory
