// Moment 5: attention of the riders.
#include "host/base/error.hpp"
#include "host/memory/segment/segment_impl.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::memory {

// [B,M+T]: riders, then tokens; undefined = all.
at::Tensor SegmentRun::Impl::rider_validity(at::Device device) const {
  if (!riders.valid.defined() && !shared.valid.defined()) return {};
  const auto all = [&](int64_t n) {
    return torch::ones({shared.lanes, n}, at::TensorOptions().dtype(at::kBool).device(device));
  };
  return at::cat({riders.valid.defined() ? riders.valid : all(riders.count),
                  shared.valid.defined() ? shared.valid : all(shared.length)},
                 1);
}

at::Tensor SegmentRun::ride(int64_t layer, const at::Tensor& hidden, const at::Tensor& q_riders,
                            const at::Tensor& k, const at::Tensor& v, LayerServices& services) {
  at::Tensor result;
  Impl& impl = *impl_;
  if (impl.rider_tier < 0) return result;
  const auto i = static_cast<std::size_t>(impl.rider_tier);
  const bool is_last = layer + 1 == impl.stack.backbone().layers;
  if (impl.tier(i).served_index(layer) < 0) {
    throw_usage(ErrorText{
        .where = str("tier ", impl.tier(i).name()),
        .failed = str("a memory with riders must serve every layer; layer ", layer, " is left out"),
        .hint = str("remove the tier's key `layers` (--unset memory.tier.", i, ".layers)")});
  }
  impl.call(i, Hook::kRide, layer, &services, {}, [&](const mneme_plugin& table, void* self) {
    impl.takes(hidden, q_riders, k, v);
    mneme_ride in = MNEME_INIT(mneme_ride);
    in.segment = &impl.seen_segment;
    in.layer = layer;
    in.riders = impl.riders.count;
    in.q_riders = impl.ctx.handles.borrow(q_riders);
    in.k = impl.ctx.handles.borrow(k);
    in.v = impl.ctx.handles.borrow(v);
    in.hidden = impl.ctx.handles.borrow(hidden);
    in.is_last = is_last ? 1 : 0;
    in.valid = impl.ctx.handles.borrow(impl.rider_validity(k.device()));
    mneme_tensor out = 0;
    const mneme_status status = impl.hook_status(table.ride, self, &in, &out);
    if (status != MNEME_OK) return status;
    return guard(&impl.error, [&] {
      if (out == 0 && is_last) return;
      result = impl.ctx.handles.get(out);
      impl.ctx.gives("result", result);
      if (result.sizes() != q_riders.sizes())
        throw CallError(MNEME_E_SHAPE, str("ride: expected ", list_text(q_riders.sizes().vec()),
                                           ", got ", list_text(result.sizes().vec())));
    });
  });
  return result;
}

}  // namespace mneme::memory
