// How a hook of a segment is called and its inputs are protected; and what the backbone may ask
// about the tiers of a layer.
#include <algorithm>
#include <cstring>

#include "host/base/error.hpp"
#include "host/memory/segment/segment_impl.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::memory {

void SegmentHooks::Impl::enter(std::size_t i, Hook hook, std::int64_t layer,
                               LayerServices* services, const at::Tensor& x) {
  ctx.tier = &tier(i);
  ctx.instance = &work[i].instance();
  ctx.state = &work[i];
  ctx.hook = hook;
  ctx.layer = layer;
  ctx.services = services;
  ctx.x = x;
  ctx.handles.begin_call(hook_text(hook), ctx.instance->traits().wants);
  ctx.count_arrays.clear();
  ctx.context = nullptr;
  released.clear();
  ctx.released = hook == Hook::kAbsorb || hook == Hook::kRide ? &released : nullptr;
  ctx.rows_read.clear();
  check_input(x);
  seen_lanes.tokens = tokens;
  seen_lanes.valid_count = valid_count;
  seen_lanes.reset = state.counters().reset;
  seen_segment = shared.segment;
  seen_segment.tokens = seen_lanes.tokens.data();
  seen_segment.valid_count = seen_lanes.valid_count.data();
  seen_segment.reset = seen_lanes.reset.data();
  seen_segment.valid = ctx.handles.borrow(shared.valid);
  seen_segment.reset_mask = ctx.handles.borrow(shared.reset_mask);
  error.struct_size = sizeof(error);
  error.flags = error.reserved = 0;
  error.code = error.native_code = error.line = 0;
  error.file[0] = error.message[0] = '\0';
}

void SegmentHooks::Impl::leave() {
  ctx.context = nullptr;
  check_untouched();
  ctx.handles.end_call();  // everything that the hook left is released
  if (!released.empty()) deliver(static_cast<std::size_t>(ctx.tier->index()), ctx.layer);
  released.clear();
}

void SegmentHooks::Impl::check_untouched() const {
  const auto refuse = [&](const std::string& what) {
    throw_plugin(ErrorText{.where = ctx.where(),
                           .failed = "the hook changed an input that is read-only",
                           .got = "a change in its " + what,
                           .hint = "change a copy of it"});
  };
  if (seen_lanes.tokens != tokens) refuse("segment->tokens");
  if (seen_lanes.valid_count != valid_count) refuse("segment->valid_count");
  if (seen_lanes.reset != state.counters().reset) refuse("segment->reset");
  mneme_segment given = seen_segment;  // but for the fields that enter() filled
  given.tokens = shared.segment.tokens;
  given.valid_count = shared.segment.valid_count;
  given.reset = shared.segment.reset;
  given.valid = shared.segment.valid;
  given.reset_mask = shared.segment.reset_mask;
  if (std::memcmp(&given, &shared.segment, sizeof(given)) != 0 ||
      seen_segment.tokens != seen_lanes.tokens.data() ||
      seen_segment.valid_count != seen_lanes.valid_count.data() ||
      seen_segment.reset != seen_lanes.reset.data())
    refuse("mneme_segment");
}

bool SegmentHooks::Impl::any_tier(std::int64_t layer,
                                  const std::function<bool(const Instance&)>& predicate) const {
  for (std::size_t i = 0; i < work.size(); ++i) {
    if (tier(i).served_index(layer) >= 0 && predicate(work[i].instance())) return true;
  }
  return false;
}

SegmentHooks::SegmentHooks(Stack& stack, StackState& state, const SegmentInput& input)
    : impl_(std::make_unique<Impl>(stack, state, input)) {
  impl_->start();
}

SegmentHooks::~SegmentHooks() = default;

const Riders& SegmentHooks::riders() const { return impl_->riders; }

bool SegmentHooks::has_tiers() const { return !impl_->work.empty(); }

bool SegmentHooks::caches_projections() const {
  return impl_->shared.caches_projections && !impl_->work.empty();
}

std::uint64_t SegmentHooks::weights_version() const { return impl_->stack.weights_version(); }

bool SegmentHooks::absorbs(std::int64_t layer) const {
  return impl_->any_tier(
      layer, [](const Instance& instance) { return instance.table().absorb != nullptr; });
}

bool SegmentHooks::wants(std::int64_t layer, std::uint64_t tensors) const {
  return impl_->any_tier(layer, [&](const Instance& instance) { return instance.wants(tensors); });
}

bool SegmentHooks::wants_lse(std::int64_t layer) const {
  return wants(layer, MNEME_WANT_ABSORB_LSE | MNEME_WANT_READ_LSE) ||
         impl_->any_tier(layer, [](const Instance& instance) {
           return (instance.traits().sites & MNEME_SITE_HEADS) != 0;
         });
}

}  // namespace mneme::memory
