// The state of one run (training, a validation, a generation): every tier's slots, queues and
// waiting rows. SegmentHooks::commit (segment/finish_and_commit.cpp) alone changes it, apart from
// resets, selection of lanes and detaching from the graph.
//
// The way of a state to a file: StackState::save() makes StateParts (state_parts.hpp), to which each
// TierState adds its own, and to_named() gives every tensor of them a name (NamedState), as files
// hold them. Back: Stack::restore() or carry() make StateParts with from_named(), and each
// TierState takes its own. merge() joins the NamedStates of several processes.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "host/memory/interface/backbone_interface.hpp"

namespace mneme::memory {

class TierState;  // tier_state.hpp

// What a run's state counts, besides the tiers' tensors.
struct RunCounters {
  Phase phase = Phase::kTraining;
  std::int64_t lanes = 0;
  std::int64_t segments = 0;  // committed ones
  std::int64_t previous_length = 0;
  std::int64_t graph_segments = 0;  // committed segments since `through` slots were last detached
  std::vector<std::uint8_t> reset = {};     // lanes to reset when the next segment begins
  bool do_others_go_on = false;             // then
  std::vector<std::uint64_t> streams = {};  // of each lane: a key of its random numbers
  std::vector<std::int64_t> tokens = {};    // valid tokens of each lane since its last reset
};

// Every tensor of a state by name ("<index>.<plugin id>.<layer>.<slot>", queues by block), for
// files; counters, and the trained options under which the tensors were made, in `metadata`.
struct NamedState {
  std::vector<std::pair<std::string, at::Tensor>> tensors;
  std::map<std::string, std::string> metadata;
};

// State of one run. Movable; clone() shares immutable tensors.
class StackState {
 public:
  StackState();
  StackState(RunCounters counters, std::vector<TierState> tiers);
  ~StackState();
  StackState(StackState&&) noexcept;
  StackState& operator=(StackState&&) noexcept;

  [[nodiscard]] StackState clone() const;
  [[nodiscard]] std::int64_t lanes() const { return counters_.lanes; }
  [[nodiscard]] std::int64_t segments() const { return counters_.segments; }
  [[nodiscard]] const RunCounters& counters() const { return counters_; }
  [[nodiscard]] const std::vector<TierState>& tiers() const { return tiers_; }
  // Marks lanes that are reset when the next segment begins. `do_others_go_on`: other processes have
  // lanes of the same batch that are not reset; then rows stay, invalid, even if all lanes of this
  // process are reset, as they do beside lanes that continue.
  void reset(const std::vector<std::uint8_t>& lanes, bool do_others_go_on = false);
  void reset_all();
  // Bytes of all slots, queues and waiting rows, measured on the tensors; cached projections apart.
  [[nodiscard]] std::int64_t bytes() const;
  [[nodiscard]] std::int64_t cached_projection_bytes() const;
  // True when no slot's graph reaches into committed segments: only then may backward and the
  // optimiser's step run.
  [[nodiscard]] bool is_graph_boundary() const { return counters_.graph_segments == 0; }
  // Detaches all slots, so that later segments send no gradient into the committed ones.
  void cut_graph();
  // The lanes' streams for the generator (default 0, 1, ...); a lane that runs alone under its own
  // stream draws the same numbers.
  void set_streams(std::vector<std::uint64_t> streams) { counters_.streams = std::move(streams); }
  // The end of a segment of `length` tokens: the tiers' states after it and the lanes' tokens since
  // their last reset. `is_detached`: no graph reaches out of `tiers`.
  void commit(std::vector<TierState> tiers, std::vector<std::int64_t> tokens, std::int64_t length,
              bool is_detached);
  // Keeps `lanes`, in that order.
  void select(const std::vector<std::int64_t>& lanes);
  // With the keys and values that blocks keep of these weights. A text that is continued with them
  // is bit for bit that of an uninterrupted generation; projecting again, with blocks grouped
  // differently, may round differently.
  NamedState save(std::optional<std::uint64_t> weights_version = {}) const;
  // One state of the lanes of all parts, in their order, of processes that computed them side by
  // side. Where queues hold different numbers of rows, the shorter ones get invalid rows in front,
  // as reset lanes have beside others. Error(kRun) for slots of different extents.
  static NamedState merge(const std::vector<NamedState>& parts);

 private:
  RunCounters counters_;
  std::vector<TierState> tiers_;
};

// What Stack::carry kept and reset of a saved state, slot by slot and queue by queue. Names are
// those of NamedState without a queue's block numbers: "<index>.<plugin id>.<layer>.<slot>".
struct StateCarry {
  struct Reset {
    std::string name, reason;
  };
  // Also a tier's waiting rows, "<index>.<plugin id>.<layer>.waiting".
  std::vector<std::string> carried;
  // Of a tier that both memories have: what did not fit and got a fresh state. "<index>.<plugin
  // id>" for the whole tier when its trained options differ.
  std::vector<Reset> reset;
  // Tensors of the saved state that the new memory does not use.
  std::vector<std::string> dropped;
};

}  // namespace mneme::memory
