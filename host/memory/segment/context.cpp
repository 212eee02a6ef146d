// Stage 3 (context): the rows that a layer's tokens attend to besides themselves; and stage 5
// (ride): the attention of riders.
#include <iterator>
#include <numeric>

#include "host/base/error.hpp"
#include "host/memory/segment/segment_impl.hpp"
#include "host/tensor/torch.hpp"
#include "mneme/plugin.h"

namespace mneme::memory {

void SegmentHooks::Impl::check_context_rows(std::size_t i, std::int64_t rows) const {
  const std::int64_t own_riders =
      rider_tier == static_cast<std::int64_t>(i) ? riders.count - riders.unseen : 0;
  const std::int64_t declared = work[i].instance().traits().context_rows;
  if (rows + own_riders <= declared) return;
  throw CallError(
      MNEME_E_INVALID_ARGUMENT,
      str("gives ", rows + own_riders, " rows",
          own_riders > 0 ? str(", ", own_riders, " of them riders") : "",
          ", but context_rows declares at most ", declared,
          "; declare the most that it gives: windows, memory estimates and reports rely on "
          "the number"));
}

void SegmentHooks::Impl::check_documents(std::size_t i, const LayerContext& context) const {
  if (!input.documents.defined()) return;
  for (const ContextBlock& block : context.blocks) {
    if (block.rows.count == 0 || block.rows.document.defined()) continue;
    refuse_documents(tier(i).name(), "a row of its context is computed, and no token of the text");
  }
}

LayerContext SegmentHooks::context(std::int64_t layer, const at::Tensor& x,
                                   LayerServices& services) {
  impl_->layer_input = x;
  std::vector<LayerContext> by_tier(impl_->work.size());
  LayerContext out;
  for (std::size_t i = 0; i < impl_->work.size(); ++i) {
    if (impl_->tier(i).served_index(layer) < 0 ||
        impl_->work[i].instance().table().context == nullptr)
      continue;
    impl_->enter(i, Hook::kContext, layer, &services, x);
    impl_->ctx.context = &by_tier[i];
    mneme_context in = MNEME_INIT(mneme_context);
    in.segment = &impl_->seen_segment;
    in.layer = layer;
    in.x = impl_->ctx.handles.borrow(x);
    impl_->run(&mneme_plugin::context, &in);
    impl_->check_given([&] { impl_->check_context_rows(i, by_tier[i].rows()); });
    impl_->leave();
    impl_->check_documents(i, by_tier[i]);
    const at::Tensor& bias = by_tier[i].token_bias;
    if (bias.defined()) out.token_bias = out.token_bias.defined() ? out.token_bias + bias : bias;
  }
  auto& columns = impl_->columns[layer];
  std::int64_t from = 0;
  for (std::size_t i = by_tier.size(); i-- > 0;) {  // farthest tier first
    columns[i] = {from, by_tier[i].rows()};
    from += by_tier[i].rows();
    for (std::size_t n = 0; n < by_tier[i].blocks.size(); ++n) {
      by_tier[i].blocks[n].tier = i;
      by_tier[i].blocks[n].number = n;
    }
    std::move(by_tier[i].blocks.begin(), by_tier[i].blocks.end(), std::back_inserter(out.blocks));
  }
  return out;
}

void SegmentHooks::keep_projections(std::int64_t layer, const at::Tensor& k, const at::Tensor& v) {
  if (impl_->shared.caches_projections)
    impl_->shared.token_projections[layer] = {k, v, impl_->stack.weights_version()};
}

// [B,M+T]: riders, then tokens; undefined = all.
at::Tensor SegmentHooks::Impl::rider_validity(at::Device device) const {
  if (!riders.valid.defined() && !shared.valid.defined()) return {};
  const auto all = [&](std::int64_t n) {
    return torch::ones({shared.lanes, n}, at::TensorOptions().dtype(at::kBool).device(device));
  };
  return at::cat({riders.valid.defined() ? riders.valid : all(riders.count),
                  shared.valid.defined() ? shared.valid : all(shared.length)},
                 1);
}

at::Tensor SegmentHooks::ride(std::int64_t layer, const at::Tensor& hidden,
                              const at::Tensor& q_riders, const at::Tensor& k, const at::Tensor& v,
                              LayerServices& services) {
  at::Tensor result;
  Impl& impl = *impl_;
  if (impl.rider_tier < 0) return result;
  const auto i = static_cast<std::size_t>(impl.rider_tier);
  const bool reaches_nothing = layer + 1 == impl.stack.backbone().layers &&
                               (!impl.is_closed || !wants_at_finish(MNEME_WANT_FINISH_RIDERS));
  if (impl.tier(i).served_index(layer) < 0) {
    throw_usage(ErrorText{
        .where = str("tier ", impl.tier(i).name()),
        .failed = str("a memory with riders must serve every layer; layer ", layer, " is left out"),
        .hint = str("remove the tier's key `layers` (--unset memory.tier.", i, ".layers)")});
  }
  impl.enter(i, Hook::kRide, layer, &services, {});
  impl.check_input(hidden, q_riders, k, v);
  mneme_ride in = MNEME_INIT(mneme_ride);
  in.segment = &impl.seen_segment;
  in.layer = layer;
  in.riders = impl.riders.count;
  in.q_riders = impl.ctx.handles.borrow(q_riders);
  in.k = impl.ctx.handles.borrow(impl.ctx.instance->seen_keys(k));
  in.v = impl.ctx.handles.borrow(impl.ctx.instance->seen_keys(v));
  in.hidden = impl.ctx.handles.borrow(hidden);
  in.is_last = reaches_nothing ? 1 : 0;
  in.valid = impl.ctx.handles.borrow(impl.rider_validity(k.device()));
  mneme_tensor out = 0;
  impl.run(&mneme_plugin::ride, &in, &out);
  impl.check_given([&] {
    if (out == 0 && reaches_nothing) return;
    result = impl.ctx.handles.get(out);
    impl.ctx.check_output("result", result);
    if (result.sizes() != q_riders.sizes())
      throw CallError(MNEME_E_SHAPE, str("ride: expected ", list_text(q_riders.sizes().vec()),
                                         ", got ", list_text(result.sizes().vec())));
  });
  impl.leave();
  return result;
}

}  // namespace mneme::memory
