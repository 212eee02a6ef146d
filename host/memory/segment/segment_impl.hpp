// The private part of SegmentHooks, shared by the files of this folder (segment_hooks.hpp lists
// them).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "host/memory/abi/hook_call.hpp"
#include "host/memory/call/boundary.hpp"
#include "host/memory/segment/segment_hooks.hpp"
#include "host/memory/stack/stack.hpp"
#include "host/memory/state/stack_state.hpp"
#include "host/plugin/host_groups.hpp"
#include "host/plugin/reported_call.hpp"

namespace mneme::memory {

// --- Merging the results of `read` (stage 6) with the backbone's attention ---
// docs/design.md, "Layer contract".

// One tier's result at a site, checked and in the shape of the local result (or broadcastable to
// it).
struct ReadResult {
  std::uint32_t merge = 0;  // MNEME_MERGE_*
  at::Tensor out;           // HEADS [B|1,T|1,H,d], OUT [B|1,T|1,D]
  at::Tensor gate;          // broadcastable to out
  at::Tensor lse;           // [B,H,T]
};

// Joins in the fixed order: all LSE in one joint softmax with the local result, then the others in
// stack order. local is [B,T,H,d] with lse [B,H,T], or [B,T,D] without lse. A row of which every
// lse is -inf gives 0. Results are cast to local's dtype.
at::Tensor merge_reads(const at::Tensor& local, const at::Tensor& lse,
                       const std::vector<ReadResult>& results);

// Copies of the lanes' counts for hooks, to detect a hook that writes into them.
struct LaneArrays {
  std::vector<std::int64_t> tokens, valid_count;
  std::vector<std::uint8_t> reset;
};

// The key columns of one tier's rows in a layer's context.
struct ColumnRange {
  std::int64_t from = 0;
  std::int64_t rows = 0;
};

// Hooks work on copies of the tiers' states (`work`), which commit() moves into the run's state.
struct SegmentHooks::Impl {
  Stack& stack;
  StackState& state;
  SegmentInput input;
  SegmentShared shared;
  mneme_ctx ctx;
  mneme_error error;
  std::vector<TierState> work;  // the segment's own copy of every tier's state
  // The tier that feeds tier i with released rows, -1 = the segment.
  std::vector<std::int64_t> feeders;
  Riders riders;
  std::int64_t rider_tier = -1;
  bool is_closed = false;   // no step may follow
  std::int64_t offset = 0;  // tokens of an open segment before this step
  std::vector<std::int64_t> valid_count;
  std::vector<std::int64_t> tokens;  // of each lane since its last reset, before this segment
  LaneArrays seen_lanes;             // as the hook that runs sees them
  mneme_segment seen_segment;        // likewise
  std::vector<Rows> released;        // by the hook that runs
  at::Tensor layer_input;            // of the layer that runs, as context() got it
  // Of each tier's context, by layer.
  std::map<std::int64_t, std::map<std::size_t, ColumnRange>> columns;
  // Of each tier: most rows that a read of it got of its queues.
  std::vector<std::int64_t> read_rows;

  Impl(Stack& stack_in, StackState& state_in, const SegmentInput& input_in)
      : stack(stack_in), state(state_in), input(input_in) {}

  [[nodiscard]] const Tier& tier(std::size_t i) const { return *stack.tiers()[i]; }

  // Begins the segment: the steps that follow, in this order.
  void start();
  void count_valid_tokens();
  void make_masks();
  void copy_state();
  void find_feeders();
  void fill_shared();
  void fill_segment();
  void check_longest() const;
  void begin_hooks();
  void begin(std::size_t i);
  // Sets the lengths that later hooks see.
  void set_lengths(std::int64_t before, std::int64_t length);

  // The call of a hook of tier i: enter(); the caller fills the hook's inputs; run(), with the
  // function of the plugin's table and its arguments between ctx and error; check_given(), with the
  // checks of the hook's results; leave(), which delivers the rows that the hook released. Errors:
  // Error(kPlugin) with the plugin's own text, or that of a check's CallError.
  void enter(std::size_t i, Hook hook, std::int64_t layer, LayerServices* services,
             const at::Tensor& x);
  template <typename Function, typename... Args>
  void run(Function mneme_plugin::*function, Args... args) {
    const plugin::ReportedCall running(ctx.instance->plugin().note.id, ctx.tier->index(),
                                       hook_text(ctx.hook), ctx.layer);
    const CallHandle live(HandleKind::kHook, &ctx);
    check_status(call_plugin(error, [&] {
      return (ctx.instance->table().*function)(ctx.instance->handle(), live.ctx(), args..., &error);
    }));
  }
  template <typename Checks>
  void check_given(Checks checks) {
    check_status(guard(&error, checks));
  }
  void leave();
  void check_status(mneme_status status) const {
    if (status != MNEME_OK) throw_plugin_status(ctx.where(), status, error);
  }
  // Errors: Error(kPlugin) when the hook changed an input that is read-only.
  void check_untouched() const;
  // Passes tensors that a hook is given to the FiniteWatch, if there is one.
  template <typename... Tensors>
  void check_input(const Tensors&... tensors) const {
    if (input.watch != nullptr) (input.watch->check_input(tensors), ...);
  }
  // Errors: CallError when tier i, which gives `rows` rows in a layer and its riders, declared
  // fewer.
  void check_context_rows(std::size_t i, std::int64_t rows) const;
  // Errors: Error(kUsage) where tokens may not see other documents and tier i gives rows of which
  // the document is not known.
  void check_documents(std::size_t i, const LayerContext& context) const;
  // Records how many rows a read hook got from its queues. Errors: CallError when it declared
  // fewer.
  void count_read_rows(std::size_t i);

  // Appends the rows that tier `from` released (`released`) to the waiting rows of the tiers that it feeds.
  void deliver(std::size_t from, std::int64_t layer);
  // local is null before reading; is_own_segment: the rows are x, and local is theirs.
  void absorb(std::size_t i, std::int64_t layer, const Rows& rows, const at::Tensor& x,
              const LocalAttention* local, LayerServices& services, bool is_own_segment = false);
  [[nodiscard]] Rows segment_rows(const at::Tensor& x) const;
  // Of LocalAttention::mass [B,C+M+T] the columns of tier i's own context rows, then those of the
  // tokens.
  [[nodiscard]] at::Tensor mass_of(std::size_t i, std::int64_t layer, const at::Tensor& mass,
                                   std::int64_t& rows) const;
  [[nodiscard]] ColumnRange columns_of(std::size_t i, std::int64_t layer) const;

  ReadResult read(std::size_t i, std::int64_t layer, std::uint32_t site,
                  const LocalAttention& local, const at::Tensor& projected,
                  LayerServices& services);
  // The results of all tiers that read at `site`.
  std::vector<ReadResult> read_all(std::int64_t layer, std::uint32_t site,
                                   const LocalAttention& local, const at::Tensor& projected,
                                   LayerServices& services);
  // Of a result at `site`.
  [[nodiscard]] std::vector<std::int64_t> result_shape(const Instance& instance,
                                                       std::uint32_t site) const;
  // The result of a read hook, checked and in the shape of the local result. Errors: CallError.
  [[nodiscard]] ReadResult checked_result(const mneme_read& out, std::uint32_t site) const;
  void check_finite(const ReadResult& result) const;
  [[nodiscard]] at::Tensor checked_out(const mneme_read& out,
                                       const std::vector<std::int64_t>& full) const;
  [[nodiscard]] std::string other_site(const at::Tensor& result, bool is_heads) const;
  [[nodiscard]] at::Tensor checked_gate(const mneme_read& out,
                                        const std::vector<std::int64_t>& full) const;
  [[nodiscard]] at::Tensor checked_lse(const mneme_read& out) const;

  [[nodiscard]] at::Tensor rider_validity(at::Device device) const;
  void take_weights(std::map<std::string, Accumulated>& all, const char* kind,
                    const std::map<std::string, double>& totals) const;
  [[nodiscard]] std::map<std::string, Reported> reported(
      const std::map<std::string, Accumulated>& from) const;
  [[nodiscard]] bool any_tier(std::int64_t layer,
                              const std::function<bool(const Instance&)>& predicate) const;
};

}  // namespace mneme::memory
