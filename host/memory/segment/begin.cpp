// Before the first layer: masks, the segment's copy of the state, the mneme_segment struct for
// hooks, and stage 1 (begin). Then the steps of open segments.

#include <algorithm>
#include <stdexcept>

#include "host/base/error.hpp"
#include "host/memory/call/normalise.hpp"
#include "host/memory/segment/segment_impl.hpp"
#include "host/tensor/dtypes.hpp"
#include "host/tensor/to_device.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::memory {
namespace {

bool any(const std::vector<std::uint8_t>& flags) {
  return std::any_of(flags.begin(), flags.end(), [](std::uint8_t flag) { return flag != 0; });
}

}  // namespace

void SegmentHooks::Impl::start() {
  count_valid_tokens();
  make_masks();
  copy_state();
  find_feeders();
  fill_shared();
  fill_segment();
  is_closed = !input.is_open;
  check_longest();
  begin_hooks();
}

void SegmentHooks::Impl::count_valid_tokens() {
  if (input.length < 1) throw_run("a segment needs at least one token, got ", input.length);
  const auto lanes = static_cast<std::size_t>(state.lanes());
  valid_count = input.valid_count;
  if (input.is_open && !valid_count.empty())
    throw_run("an open segment has no padding: leave valid_count empty");
  if (valid_count.empty()) valid_count.assign(lanes, input.length);
  if (valid_count.size() != lanes)
    throw_run("valid_count: expected ", lanes, " lanes, got ", valid_count.size());
  for (std::size_t b = 0; b < lanes; ++b) {
    if (valid_count[b] < 0 || valid_count[b] > input.length)
      throw_run("valid_count of lane ", b, ": expected 0 to ", input.length, ", got ",
                valid_count[b]);
  }
}

void SegmentHooks::Impl::make_masks() {
  const at::Device device = stack.backbone().device;
  if (std::any_of(valid_count.begin(), valid_count.end(),
                  [&](std::int64_t n) { return n != input.length; })) {
    const at::Tensor counts = torch::tensor(valid_count, at::kLong).unsqueeze(1);
    shared.valid =
        tensor::to_device(torch::arange(input.length, at::kLong).unsqueeze(0).lt(counts), device);
    for (const std::int64_t n : valid_count) {
      for (std::int64_t i = 0; i < input.length; ++i) shared.valid_on_cpu.push_back(i < n ? 1 : 0);
    }
  }
  if (const std::vector<std::uint8_t>& reset = state.counters().reset; any(reset)) {
    // Written where it lies: a tensor of the vector's memory would outlive it in a trace.
    const at::Tensor mask = torch::empty({state.lanes()}, at::kBool);
    std::ranges::transform(reset, mask.mutable_data_ptr<bool>(),
                           [](std::uint8_t flag) { return flag != 0; });
    shared.reset_mask = tensor::to_device(mask, device);
  }
}

void SegmentHooks::Impl::copy_state() {
  work = state.tiers();
  const std::vector<std::uint8_t>& reset = state.counters().reset;
  for (TierState& tier_state : work) {
    if (any(reset)) tier_state.reset(reset, state.counters().do_others_go_on);
    tier_state.clear_segment_slots();
  }
  tokens = state.counters().tokens;
  for (std::size_t b = 0; b < tokens.size(); ++b) {
    if (reset[b] != 0) tokens[b] = 0;
  }
}

void SegmentHooks::Impl::find_feeders() {
  feeders.assign(work.size(), -1);
  for (std::size_t i = 0; i < work.size(); ++i) {
    if (tier(i).config().feed != config::Feed::kReleased) continue;
    for (std::size_t j = i; feeders[i] < 0 && j-- > 0;) {
      if ((work[j].instance().traits().flags & MNEME_TIER_RELEASES) != 0)
        feeders[i] = static_cast<std::int64_t>(j);
    }
  }
}

void SegmentHooks::Impl::fill_shared() {
  shared.stack = &stack;
  shared.lanes = state.lanes();
  shared.length = input.length;
  shared.caches_projections = input.may_keep_projections &&
                              state.counters().phase == Phase::kEvaluation &&
                              !at::GradMode::is_enabled();
  shared.streams = &state.counters().streams;
  // A copy, one for all layers: what becomes state does not lie in the batch's tensors.
  if (input.documents.defined()) input.documents = input.documents.clone();
  shared.input = &input;
  ctx.shared = &shared;
}

void SegmentHooks::Impl::fill_segment() {
  const BackboneInfo& backbone = stack.backbone();
  const bool training = state.counters().phase == Phase::kTraining;
  mneme_segment& segment = shared.segment;
  segment = MNEME_INIT(mneme_segment);
  segment.flags = (training ? MNEME_SEGMENT_TRAINING : 0u) |
                  (any(state.counters().reset) ? MNEME_SEGMENT_ANY_RESET : 0u) |
                  (training && !at::GradMode::is_enabled() ? MNEME_SEGMENT_NO_LOSS : 0u) |
                  (input.is_open ? MNEME_SEGMENT_OPEN : 0u);
  segment.index = state.segments();
  segment.lanes = state.lanes();
  segment.length = input.length;
  segment.previous_length = state.counters().previous_length;
  segment.layers = backbone.layers;
  segment.compute_dtype = tensor::dtype_code_of(backbone.compute_dtype);
  segment.device_type = backbone.device.is_cuda() ? MNEME_DEVICE_CUDA : MNEME_DEVICE_CPU;
}

void SegmentHooks::Impl::check_longest() const {
  for (std::size_t i = 0; i < work.size(); ++i) {
    const std::int64_t longest = work[i].instance().traits().max_segment;
    if (longest > 0 && offset + input.length > longest) {
      throw_usage(ErrorText{.where = str("tier ", tier(i).name()),
                            .failed = "the segment is longer than the memory can serve",
                            .expected = str("at most ", longest, " tokens"),
                            .got = str(offset + input.length)});
    }
  }
}

void SegmentHooks::Impl::begin_hooks() {
  for (std::size_t i = 0; i < work.size(); ++i) {
    if (work[i].instance().table().begin != nullptr) begin(i);
  }
}

void SegmentHooks::Impl::begin(std::size_t i) {
  enter(i, Hook::kBegin, -1, nullptr, {});
  plugin::PluginFilled<mneme_riders> filled;
  mneme_riders& out = filled.value;
  run(&mneme_plugin::begin, &seen_segment, &out);
  check_given([&] {
    check_fields(out, "mneme_riders");
    if (out.rows == 0) return;
    if ((ctx.instance->traits().flags & MNEME_TIER_RIDERS) == 0)
      throw CallError(MNEME_E_STATE, "riders need MNEME_TIER_RIDERS in the tier's traits");
    mneme_rows rows = MNEME_INIT(mneme_rows);
    rows.hidden = out.rows;
    rows.valid = out.valid;
    const Rows checked = ctx.rows_in(rows);
    ctx.check_output("riders", checked.hidden);
    if (out.unseen < 0 || out.unseen > checked.count)
      throw CallError(MNEME_E_INVALID_ARGUMENT,
                      str("riders: unseen: expected 0 to ", checked.count, ", got ", out.unseen));
    riders = {checked.hidden, checked.valid, checked.count, out.unseen};
    rider_tier = static_cast<std::int64_t>(i);
    check_context_rows(i, 0);
  });
  leave();
}

// --- Open segments: lengths that hooks see in each step, and lanes between steps ---

void SegmentHooks::Impl::set_lengths(std::int64_t before, std::int64_t length) {
  offset = before;
  input.length = shared.length = shared.segment.length = length;
  shared.segment.offset = before;
  valid_count.assign(valid_count.size(), length);
}

void SegmentHooks::next_step(std::int64_t length) {
  if (impl_->is_closed) throw std::logic_error("a step of a segment that is closed");
  if (length < 1) throw_run("a step needs at least one token, got ", length);
  impl_->set_lengths(impl_->offset + impl_->input.length, length);
  impl_->check_longest();
}

void SegmentHooks::close() {
  if (impl_->is_closed) throw std::logic_error("a segment is closed twice");
  impl_->set_lengths(0, impl_->offset + impl_->input.length);
  impl_->shared.segment.flags &= ~MNEME_SEGMENT_OPEN;
  impl_->is_closed = true;
}

void SegmentHooks::restart(std::int64_t length) {
  if (impl_->is_closed) throw std::logic_error("a segment that is closed begins again");
  SegmentInput input = impl_->input;
  input.length = length;
  input.is_open = false;
  impl_ = std::make_unique<Impl>(impl_->stack, impl_->state, input);
  impl_->start();
}

void SegmentHooks::select(const std::vector<std::int64_t>& lanes) {
  Impl& impl = *impl_;
  if (impl.is_closed) throw std::logic_error("lanes are selected in a segment that is closed");
  impl.state.select(lanes);
  for (TierState& tier_state : impl.work) tier_state.select(lanes);
  std::vector<std::int64_t> tokens;
  for (const std::int64_t lane : lanes)
    tokens.push_back(impl.tokens[static_cast<std::size_t>(lane)]);
  impl.tokens = std::move(tokens);
  impl.valid_count.assign(lanes.size(), impl.input.length);
  const at::Tensor index = torch::tensor(lanes, at::kLong).to(impl.stack.backbone().device);
  const auto pick = [&](at::Tensor& t) {
    if (t.defined()) t = t.index_select(0, index);
  };
  pick(impl.shared.reset_mask);
  pick(impl.riders.rows);
  pick(impl.riders.valid);
  impl.shared.lanes = impl.shared.segment.lanes = impl.state.lanes();
}

}  // namespace mneme::memory
