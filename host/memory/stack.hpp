// The stack of memory tiers as backbone, trainer and evaluator see it (docs/design.md, "State" and
// "Layer contract").
//
//   Stack       the configured tiers: plugins, instances, parameters. Shared by all runs.
//
//   StackState  the state of one run (training, a validation, a generation): every tier's slots,
//               queues and waiting rows.
//
//   SegmentRun  one segment of one run: calls the hooks; writes become the state at commit() or are
//               dropped.
#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "host/config/experiment.hpp"
#include "host/config/options.hpp"
#include "host/memory/layer_services.hpp"
#include "host/memory/state/rows.hpp"
#include "host/plugin/plugin_options.hpp"

namespace mneme::plugin {
class PluginLoader;  // loader.hpp
}  // namespace mneme::plugin

namespace mneme::memory {

// What Stack::carry kept and reset of a saved state, slot by slot and queue by queue. Names are
// those of StackState::Saved without a queue's block numbers: "<tier>.<plugin>.<layer>.<slot>".
struct StateCarry {
  struct Reset {
    std::string name, reason;
  };
  // Also a tier's waiting rows, "<tier>.<plugin>.<layer>.waiting".
  std::vector<std::string> carried;
  // Of a tier that both memories have: what did not fit and got a fresh state. "<tier>.<plugin>"
  // for the whole tier when its trained options differ.
  std::vector<Reset> reset;
  // Tensors of the saved state that the new memory does not use.
  std::vector<std::string> dropped;
};

class FiniteWatch;   // finite_watch.hpp
class Tier;          // tier.hpp
class TierState;     // tier_state.hpp
struct TierOutline;  // tier_outline.hpp

// The backbone as tiers see it.
struct BackboneInfo {
  int64_t layers = 0;
  int64_t width = 0;       // D
  int64_t heads = 0;       // H
  int64_t head_width = 0;  // d
  bool is_pre_norm = false;
  std::string position = "relative";
  double attention_dropout = 0.0;
  at::ScalarType compute_dtype = at::kFloat;  // kDouble, kFloat or kBFloat16
  at::Device device = at::kCPU;
  int64_t train_segment = 0;
  int64_t eval_segment = 0;
  int64_t bptt_segments = 1;
  uint64_t seed = 0;
  // False: the values will be loaded. Parameters are NaN until they are filled, or drawn by
  // Stack::draw_parameters.
  bool draws_parameters = true;
};

enum class Phase { kTraining, kEvaluation };

// A parameter that a tier declared. The tensor is a leaf that requires grad; the host owns,
// optimises and saves it.
struct TierParameter {
  std::string name;  // memory.<tier index>.<plugin id>.<layer or "model">.<name>
  std::string tier;  // "<tier index>.<plugin id>"
  at::Tensor tensor;
  double lr_factor = 1.0;              // the plugin's factor on the learning rate
  std::optional<double> lr;            // the manifest's `lr` for the tier, in place of train.lr
  std::string group;                   // weight-decay group; "" = the backbone's rule
  std::optional<double> weight_decay;  // the manifest's value for the tier
};

// Identity of the code that ran, for reports and checkpoints.
struct TierIdentity {
  std::string id, version, path, sha256, compiler, commit;
  bool is_dirty = false;
};

// State of one run. Movable; clone() shares immutable tensors.
class StackState {
 public:
  StackState();
  ~StackState();
  StackState(StackState&&) noexcept;
  StackState& operator=(StackState&&) noexcept;

  StackState clone() const;
  int64_t lanes() const { return lanes_; }
  int64_t segments() const { return segments_; }
  // Marks lanes that are reset when the next segment begins.
  void reset(const std::vector<uint8_t>& lanes);
  void reset_all();
  // Bytes of all slots, queues and waiting rows, measured on the tensors; cached projections apart.
  int64_t bytes() const;
  int64_t cached_projection_bytes() const;
  // True when no slot's graph reaches into committed segments: only then may backward and the
  // optimiser's step run.
  bool is_graph_boundary() const { return graph_segments_ == 0; }
  // Detaches all slots, so that later segments send no gradient into the committed ones.
  void cut_graph();
  // The lanes' streams for the generator (default 0, 1, ...); a lane that runs alone under its own
  // stream draws the same numbers.
  void set_streams(std::vector<uint64_t> streams) { streams_ = std::move(streams); }
  // Keeps `lanes`, in that order.
  void select(const std::vector<int64_t>& lanes);
  // Every tensor of the state by name ("<tier>.<plugin>.<layer>.<slot>", queues by block), for
  // checkpoints; counters, and the trained options under which the tensors were made, in
  // `metadata`.
  struct Saved {
    std::vector<std::pair<std::string, at::Tensor>> tensors;
    std::map<std::string, std::string> metadata;
  };
  Saved save() const;

 private:
  friend class Stack;
  friend class SegmentRun;
  Phase phase_ = Phase::kTraining;
  int64_t lanes_ = 0;
  int64_t segments_ = 0;  // committed segments
  int64_t previous_length_ = 0;
  int64_t graph_segments_ = 0;     // committed segments since `through` slots were last detached
  std::vector<uint8_t> reset_;     // lanes to reset when the next segment begins
  std::vector<uint64_t> streams_;  // of each lane: a key of its random numbers
  std::vector<int64_t> tokens_;    // valid tokens of each lane since its last reset
  std::vector<std::unique_ptr<TierState>> tiers_;
};

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

  const BackboneInfo& backbone() const { return backbone_; }
  bool is_empty() const { return tiers_.empty(); }
  std::vector<TierIdentity> identities() const;
  const std::vector<TierParameter>& parameters() const { return parameters_; }
  // Draws the initial values of these parameters; the caller then calls weights_changed().
  void draw_parameters(const std::vector<std::string>& names);
  // Rows that the tiers' contexts hold at most, summed over tiers (key same_length).
  int64_t context_rows(Phase phase) const;
  // The riders among them, which pass through the layers with every segment.
  int64_t rider_rows(Phase phase) const;
  // Every optimiser step, load of weights and swap calls it: cached projections of older weights
  // are dropped.
  void weights_changed() { ++weights_version_; }
  uint64_t weights_version() const { return weights_version_; }
  // Called when this stack replaces `retired`: projections cached under that one become outdated.
  void succeed(const Stack& retired) {
    weights_version_ = std::max(weights_version_, retired.weights_version_ + 1);
  }

  // What the tiers declare, in stack order, with the bytes of states of so many lanes.
  std::vector<TierOutline> outlines(int64_t train_lanes, int64_t eval_lanes) const;

  StackState new_state(Phase phase, int64_t lanes) const;
  // Restores what save() gave. Errors: Error(kUsage) for another plugin, revision or shape, and for
  // other trained options.
  StackState restore(Phase phase, int64_t lanes, const StackState::Saved& saved) const;
  // The keys and values that a state's blocks keep, by name, and the reverse: into a state restored
  // from what save() gave at the same time. A text that is continued with them is bit for bit that
  // of an uninterrupted generation; projecting again, with blocks grouped differently, may round
  // differently. Errors: Error(kUsage).
  std::vector<std::pair<std::string, at::Tensor>> save_projections(const StackState& state) const;
  void restore_projections(StackState& state, const StackState::Saved& saved) const;
  // Longest segment that every tier serves; 0 = any.
  int64_t longest_segment(Phase phase) const;
  // The state for continuing a run of another stack, whose state was saved: slots and queues of
  // tiers that both stacks have under one name (index and plugin id) are carried where name,
  // revision and shape agree; extents that a slot declares as MNEME_ANY and the number of a queue's
  // rows do not count, a smaller capacity keeps the newest rows. A tier that only this stack has
  // starts with a fresh state. What does not fit, and everything of a tier with other trained
  // options, is refused, or with Carry::kReset gets a fresh state; `report` (may be null) lists it.
  // Counters of lanes and segments are always taken over. Errors: Error(kUsage) listing what does
  // not fit, and for another number of lanes.
  StackState carry(Phase phase, int64_t lanes, const StackState::Saved& saved, config::Carry policy,
                   StateCarry* report = nullptr) const;
  // The options that a tier's plugin publishes.
  const std::vector<config::OptionSpec>& option_specs(std::size_t tier) const;
  // The values of the trained options: those that parameters and state depend on.
  plugin::TierOptions trained_options() const;
  // The differences between these values and those under which parameters or a state were made.
  std::vector<plugin::OptionChange> changed_options(const plugin::TierOptions& trained) const;

 private:
  friend class SegmentRun;
  std::vector<plugin::OptionChange> changed_options(const StackState::Saved& saved) const;
  StackState restore_counters(Phase phase, int64_t lanes, const StackState::Saved& saved) const;

  BackboneInfo backbone_;
  std::vector<std::unique_ptr<Tier>> tiers_;
  std::vector<TierParameter> parameters_;
  uint64_t weights_version_ = 1;
};

// How the rows of a context block stand to the tokens; numbers of MNEME_POSITION_*.
enum class PositionKind : uint32_t { kPlace = 0, kExplicit = 1, kNone = 2 };

struct ContextBlock {
  Rows rows;
  // Set for blocks of a queue in evaluation: keys and values may be taken from and stored into
  // block->projections[layer] when weights_version agrees.
  BlockPtr block;
  PositionKind position = PositionKind::kPlace;  // other kinds do not shift the distances of these
  at::Tensor distance;  // [B|1,m] i64 distance to the segment's first token; kExplicit
  at::Tensor bias;      // [B|1,H|1,T|1,m]; undefined = none
};

// The rows that a layer's tokens attend to besides themselves: farthest tier first, oldest row
// first.
struct LayerContext {
  std::vector<ContextBlock> blocks;
  at::Tensor token_bias;  // [B|1,H|1,T|1,offset+T]; undefined = none
  int64_t rows() const;
};

// A segment about to run.
struct SegmentInput {
  int64_t length = 0;                     // T, padding included
  std::vector<int64_t> valid_count = {};  // [B]; empty = T for every lane
  // Generation: the segment grows step by step, `length` is the first step's and there is no
  // padding. SegmentRun::next_step() and close() advance it.
  bool is_open = false;

  // Named draws of hooks, keys "<tier>.<layer|model>.<name>" with <tier> = "<index>.<plugin id>":
  // values to use instead of drawing, and where all draws are recorded.
  const std::map<std::string, at::Tensor>* replay_draws = nullptr;
  std::map<std::string, at::Tensor>* recorded_draws = nullptr;
  // Names of the wanted probes, and where their tensors are stored (keys as above).
  std::set<std::string, std::less<>> wanted_probes = {};
  std::map<std::string, at::Tensor>* probes = nullptr;
  // Checks all tensors that hooks are given and give; used when a loss was not finite.
  FiniteWatch* watch = nullptr;
};

struct Riders {
  at::Tensor rows;   // [B,M,D]; undefined = none
  at::Tensor valid;  // [B,M] bool; undefined = all
  int64_t count = 0;
};

// Results of the local attention, for hooks. q, k, v without position terms or biases, token rows
// only.
struct LocalAttention {
  at::Tensor q, k, v;  // [B,T,H,d]; in an open segment k, v of all tokens so far
  at::Tensor z;        // [B,T,H,d]
  at::Tensor lse;      // [B,H,T]
  at::Tensor mass;     // [B,R+T] attention mass per key column, summed over heads and queries; when
                       // wants_mass
  // Keys and values [B,m,H,d] of the blocks of LayerContext that have rows, in their order; when
  // wants_context_projections.
  std::vector<at::Tensor> context_k, context_v;
};

// An auxiliary loss or metric: the weighted mean over lanes and calls, summed over layers.
struct Reported {
  at::Tensor value;  // []; with gradient for losses
  double weight = 1.0;
};

// One segment of one run. Unless it is committed, the state stays unchanged.
class SegmentRun {
 public:
  // Runs `begin` of every tier. Training when the state's phase is training, also without gradient:
  // segments that only fill the memory (train::Trainer).
  SegmentRun(Stack& stack, StackState& state, const SegmentInput& input);
  ~SegmentRun();
  SegmentRun(const SegmentRun&) = delete;
  SegmentRun& operator=(const SegmentRun&) = delete;

  const Riders& riders() const;

  // Open segments. The run begins with the first step; next_step(n) begins one of n more tokens.
  // Stages 3, 4 and 6 run in every step, 1, 2 and 5 only in the first. close() comes before stages
  // 7 and 8, which see the whole segment. Errors: Error(kUsage) when the segment grows beyond what
  // a tier serves; std::logic_error for a closed segment.
  void next_step(int64_t length);
  void close();
  // Tokens of an open segment before this step; 0 at the close and in closed segments.
  int64_t offset() const;
  // Between steps: keeps `lanes`, in that order (repeats allowed), of the run and of its state.
  void select(const std::vector<int64_t>& lanes);

  // Stage 2. x [B,T,D] is the layer's input before its norm (token rows only).
  void absorb_before(int64_t layer, const at::Tensor& x, LayerServices& services);
  // Stage 3.
  LayerContext context(int64_t layer, const at::Tensor& x, LayerServices& services);
  // True when the backbone may use and fill ContextBlock::block->projections (evaluation, no
  // gradient).
  bool caches_projections() const;
  uint64_t weights_version() const;
  // In evaluation: the token rows' keys and values, so that blocks made of x inherit them.
  void token_projection(int64_t layer, const at::Tensor& k, const at::Tensor& v);
  // Whether a tier absorbs in the layer, and whether it wants the queries or the local result.
  bool absorbs(int64_t layer) const;
  bool wants_queries(int64_t layer) const;
  bool wants_local(int64_t layer) const;
  bool wants_mass(int64_t layer) const;
  bool wants_context_projections(int64_t layer) const;
  // lse is wanted by a hook, or may be by a merge at HEADS: it costs a pass over the scores.
  bool wants_lse(int64_t layer) const;
  // Stage 5: attention of the riders, [B,M,H,d]; may be undefined in the last layer, where it is
  // not needed. k, v [B,M+T,H,d]: riders, then tokens.
  at::Tensor ride(int64_t layer, const at::Tensor& hidden, const at::Tensor& q_riders,
                  const at::Tensor& k, const at::Tensor& v, LayerServices& services);
  // Stage 6 at HEADS: returns the merged [B,T,H,d]; local.z itself when no tier reads here.
  at::Tensor read_heads(int64_t layer, const LocalAttention& local, LayerServices& services);
  // Stage 6 at OUT: returns the merged [B,T,D]; `projected` itself when no tier reads here.
  at::Tensor read_out(int64_t layer, const at::Tensor& projected, const LocalAttention& local,
                      LayerServices& services);
  // Stage 7.
  void absorb_after(int64_t layer, const at::Tensor& x, const LocalAttention& local,
                    LayerServices& services);
  // Calls absorb of one tier with exactly these rows, keeping their graph (hook_driver.hpp).
  void absorb_rows(std::size_t tier, int64_t layer, const Rows& rows, const at::Tensor& x,
                   const LocalAttention& local, LayerServices& services);
  // Stage 8. top [B,T,D]; layers: outputs of all layers (empty unless wants_layer_outputs); targets
  // [B,T] i64 (-1 = none), logp [B,T], both undefined when there are none.
  bool wants_layer_outputs() const;
  void finish(const at::Tensor& top, const std::vector<at::Tensor>& layers,
              const at::Tensor& targets, const at::Tensor& logp);

  // Rows besides the context's that reads may use in a layer, summed over tiers: the number that a
  // tier declares (traits.read_rows), or the number that it got from its queues in this segment if
  // that is larger.
  int64_t read_rows() const;

  // Auxiliary losses by "<tier>.<name>" with the manifest's weight beside the value; metrics
  // likewise, detached.
  std::map<std::string, Reported> losses() const;
  std::map<std::string, Reported> metrics() const;
  // Sum of weight * value over losses; undefined when there is none.
  at::Tensor total_loss() const;

  // Makes this segment's writes the state.
  void commit();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace mneme::memory
