// Moment 3: what a layer's tokens attend to besides themselves.
#include "host/memory/segment/segment_impl.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::memory {

void SegmentRun::Impl::check_context_rows(std::size_t i, int64_t rows) const {
  const int64_t own_riders = rider_tier == static_cast<int64_t>(i) ? riders.count : 0;
  const int64_t declared = work[i].instance().traits().context_rows;
  if (rows + own_riders <= declared) return;
  throw CallError(MNEME_E_INVALID_ARGUMENT,
                  str(rows + own_riders, " rows",
                      own_riders > 0 ? str(", ", own_riders, " of them riders") : "",
                      ", but traits.context_rows declares at most ", declared,
                      ": windows, memory estimates and reports count on it"));
}

LayerContext SegmentRun::context(int64_t layer, const at::Tensor& x, LayerServices& services) {
  impl_->layer_input = x;
  std::vector<LayerContext> by_tier(impl_->work.size());
  LayerContext out;
  for (std::size_t i = 0; i < impl_->work.size(); ++i) {
    if (impl_->tier(i).served_index(layer) < 0 ||
        impl_->work[i].instance().table().context == nullptr)
      continue;
    impl_->ctx.context = &by_tier[i];
    impl_->call(i, Hook::kContext, layer, &services, x, [&](const mneme_plugin& table, void* self) {
      mneme_context in = MNEME_INIT(mneme_context);
      in.segment = &impl_->seen_segment;
      in.layer = layer;
      in.x = impl_->ctx.handles.borrow(x);
      const mneme_status status = impl_->hook_status(table.context, self, &in);
      if (status != MNEME_OK) return status;
      return guard(&impl_->error, [&] { impl_->check_context_rows(i, by_tier[i].rows()); });
    });
    const at::Tensor& bias = by_tier[i].token_bias;
    if (bias.defined()) out.token_bias = out.token_bias.defined() ? out.token_bias + bias : bias;
  }
  auto& columns = impl_->columns[layer];
  int64_t from = 0;
  for (std::size_t i = by_tier.size(); i-- > 0;) {  // farthest tier first
    columns[i] = {from, by_tier[i].rows()};
    from += by_tier[i].rows();
    std::move(by_tier[i].blocks.begin(), by_tier[i].blocks.end(), std::back_inserter(out.blocks));
  }
  return out;
}

void SegmentRun::token_projection(int64_t layer, const at::Tensor& k, const at::Tensor& v) {
  if (impl_->shared.caches_projections)
    impl_->shared.token_projections[layer] = {k, v, impl_->shared.weights_version};
}

}  // namespace mneme::memory
