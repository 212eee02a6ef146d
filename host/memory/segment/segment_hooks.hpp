// The hooks of one segment (docs/design.md, "Layer contract"): what the backbone passes to them and
// gets from them, stage by stage. The files of this folder:
//
//   segment_hooks.cpp      how a hook is called
//   begin.cpp              before stage 1, stage 1 (begin), steps of open segments
//   absorb.cpp             stages 2 and 7 (absorb)
//   context.cpp            stages 3 (context) and 5 (ride); 4 (attention) is the backbone's
//   read.cpp               stage 6 (read) and the merge of its results
//   finish_and_commit.cpp  stage 8 (finish), and commit(): the segment's writes become the state
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "host/memory/interface/backbone_interface.hpp"
#include "host/memory/interface/rows.hpp"
#include "host/memory/interface/segment_input.hpp"
#include "host/memory/stack/stack.hpp"
#include "host/memory/state/stack_state.hpp"

namespace mneme::memory {

// The hooks of all tiers in one segment. They work on copies, which commit() makes the state;
// before it only select() and cached projections change the state.
class SegmentHooks {
 public:
  // Copies the state and runs `begin` of every tier. The state's phase says whether the segment is
  // one of training, also without gradients (train::Trainer fills memories so).
  SegmentHooks(Stack& stack, StackState& state, const SegmentInput& input);
  ~SegmentHooks();
  SegmentHooks(const SegmentHooks&) = delete;
  SegmentHooks& operator=(const SegmentHooks&) = delete;

  [[nodiscard]] const Riders& riders() const;
  // Without tiers no hook is called, and no x is read.
  [[nodiscard]] bool has_tiers() const;

  // Open segments. They begin with the first step; next_step(n) begins one of n more tokens.
  // Stages 3, 4 and 6 run in every step, 1, 2 and 5 only in the first. close() comes before stages
  // 7 and 8, which see the whole segment. Errors: Error(kUsage) when the segment grows beyond what
  // a tier serves; std::logic_error for a closed segment.
  void next_step(std::int64_t length);
  void close();
  // In place of close(): forgets the open segment and begins it again as a closed one of `length`
  // tokens, whose stages then run as those of any other.
  void restart(std::int64_t length);
  // Between steps: keeps `lanes`, in that order (repeats allowed), of the segment and of the state.
  void select(const std::vector<std::int64_t>& lanes);

  // Stage 2 (absorb before reading). x [B,T,D] is the layer's input before its norm (token rows
  // only).
  void absorb_before(std::int64_t layer, const at::Tensor& x, LayerServices& services);
  // Stage 3 (context).
  LayerContext context(std::int64_t layer, const at::Tensor& x, LayerServices& services);
  // True when the backbone may use and fill ContextBlock::block->projections
  // (SegmentInput::may_keep_projections).
  [[nodiscard]] bool caches_projections() const;
  [[nodiscard]] std::uint64_t weights_version() const;
  // In evaluation: keeps the token rows' keys and values, so that blocks made of x inherit them.
  void keep_projections(std::int64_t layer, const at::Tensor& k, const at::Tensor& v);
  // Whether a tier absorbs in the layer, and whether one wants any of these tensors
  // (MNEME_WANT_...).
  [[nodiscard]] bool absorbs(std::int64_t layer) const;
  [[nodiscard]] bool wants(std::int64_t layer, std::uint64_t tensors) const;
  // A hook wants lse, or a tier that reads at HEADS may merge by it: it costs a pass over the
  // scores.
  [[nodiscard]] bool wants_lse(std::int64_t layer) const;
  // Stage 5 (ride): attention of the riders, [B,M,H,d]; may be undefined in the last layer, where
  // it is not needed. k, v [B,M+T,H,d]: riders, then tokens.
  at::Tensor ride(std::int64_t layer, const at::Tensor& hidden, const at::Tensor& q_riders,
                  const at::Tensor& k, const at::Tensor& v, LayerServices& services);
  // Stage 6 (read) of the tier that replaces the attention of the layer, before the other tiers':
  // its result, [B,T,H,d] at HEADS or [B,T,D] at OUT. `local` has the projections that it wants.
  at::Tensor read_in_place(std::int64_t layer, const LocalAttention& local,
                           LayerServices& services);
  // Stage 6 (read) at HEADS: returns the merged [B,T,H,d]; local.z itself when no tier reads here.
  at::Tensor read_heads(std::int64_t layer, const LocalAttention& local, LayerServices& services);
  // Stage 6 (read) at OUT: returns the merged [B,T,D]; `projected` itself when no tier reads here.
  // Where a tier replaces the attention `projected` is its result, and the other tiers read.
  at::Tensor read_out(std::int64_t layer, const at::Tensor& projected, const LocalAttention& local,
                      LayerServices& services);
  // Stage 7 (absorb). Tiers that absorb before reading only get the rows queued, for stage 2 of the
  // next segment.
  void absorb_after(std::int64_t layer, const at::Tensor& x, const LocalAttention& local,
                    LayerServices& services);
  // Calls absorb of one tier with exactly these rows. Their graph is kept, so gradients into rows
  // can be checked (hook_driver.hpp).
  void absorb_rows(std::size_t tier, std::int64_t layer, const Rows& rows, const at::Tensor& x,
                   const LocalAttention& local, LayerServices& services);
  // Stage 8 (finish). top [B,T,D]; layers: outputs of all layers; targets [B,T] i64 (-1 = none),
  // logp [B,T], both undefined when there are none; riders [B,M,D], as top (undefined without
  // riders). Layers, logp and riders may be left out unless a tier wants them (MNEME_WANT_FINISH_...).
  [[nodiscard]] bool wants_at_finish(std::uint64_t tensors) const;
  void finish(const at::Tensor& top, const std::vector<at::Tensor>& layers,
              const at::Tensor& targets, const at::Tensor& logp, const at::Tensor& riders = {});

  // Rows besides the context's that reads may use in a layer, summed over tiers: the number that a
  // tier declares (traits.read_rows), or the number that it got from its queues in this segment if
  // that is larger.
  [[nodiscard]] std::int64_t read_rows() const;

  // After stage 8, where this process computes some of the lanes: losses and metrics become the
  // parts that these lanes have in the means over all lanes, so that their sums over the processes
  // are the means. Collective.
  void sum_over_processes(const SumOverProcesses& sum);
  // Auxiliary losses by "<index>.<plugin id>.<name>" with the memory file's weight beside the
  // value; metrics likewise, detached. After stage 8.
  [[nodiscard]] std::map<std::string, Reported> losses() const;
  [[nodiscard]] std::map<std::string, Reported> metrics() const;
  // Sum of weight * value over losses; undefined when there is none.
  [[nodiscard]] at::Tensor total_loss() const;

  // Makes this segment's writes the state.
  void commit();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace mneme::memory
