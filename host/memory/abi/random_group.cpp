// Group mneme.random/1. Draws are keyed by (seed, tier, layer, the lane's stream, segment, name), in
// the later steps of an open segment by the step's offset too.
#include "host/base/error.hpp"
#include "host/base/random.hpp"
#include "host/memory/abi/groups.hpp"
#include "host/memory/abi/hook_call.hpp"
#include "host/memory/call/boundary.hpp"
#include "host/memory/call/normalise.hpp"
#include "host/ops/op_table.hpp"
#include "host/tensor/dispatch/trace.hpp"
#include "host/tensor/to_device.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::memory {
namespace {

// One number of a law.
using Law = double (Random::*)();

at::Tensor draw(const mneme_ctx* ctx, Law law, const char* name,
                const std::vector<std::int64_t>& dims) {
  at::Tensor out = torch::empty(dims, at::kDouble);
  const SegmentShared& shared = *ctx->shared;
  const std::int64_t offset = shared.segment.offset;
  // A plugin's names are C strings and hold no zero byte, so this suffix cannot collide with one.
  const std::string key = offset > 0 ? str(name, '\0', offset) : std::string(name);
  const auto tier = static_cast<std::uint64_t>(ctx->tier->index()),
             layer = static_cast<std::uint64_t>(ctx->layer + 1);
  tensor::run_traced(
      str("draw ", name, " of tier ", tier, ", layer ", layer), {}, {out},
      [law, key, tier, layer, seed = shared.stack->backbone().seed, streams = *shared.streams,
       segment = shared.segment.index](const std::vector<at::Tensor>& tensors, std::int64_t ahead) {
        const at::Tensor& drawn = tensors[0];
        const std::int64_t lanes = drawn.size(0);
        const std::int64_t per_lane = lanes == 0 ? 0 : drawn.numel() / lanes;
        double* data = drawn.mutable_data_ptr<double>();
        for (std::int64_t b = 0; b < lanes; ++b) {
          Random random(seed, {"memory", tier, layer, streams[static_cast<std::size_t>(b)],
                               static_cast<std::uint64_t>(segment + ahead), std::string_view(key)});
          for (std::int64_t i = 0; i < per_lane; ++i) *data++ = (random.*law)();
        }
      },
      tensor::Capture::kAhead);
  return out;
}

template <Law law>
mneme_status named_draw(mneme_ctx* opaque, const char* name, const mneme_shape* given,
                        mneme_tensor* out, mneme_error* error) {
  return in_hook(opaque, error, [&](mneme_ctx* ctx) {
    need(out, "out");
    const auto shape = normalised(given, "mneme_shape");
    if (name == nullptr || *name == '\0')
      throw CallError(MNEME_E_INVALID_ARGUMENT, "a draw needs a name");
    if (shape.rank < 1 || shape.rank > MNEME_MAX_RANK || shape.dims[0] != ctx->shared->lanes) {
      throw CallError(MNEME_E_SHAPE,
                      str("draw \"", name, "\": dims[0] must be B = ", ctx->shared->lanes));
    }
    if (shape.dtype != MNEME_F32 && shape.dtype != MNEME_F64)
      throw CallError(MNEME_E_DTYPE, str("draw \"", name, "\": dtype must be f32 or f64"));
    const std::vector<std::int64_t> dims(shape.dims, shape.dims + shape.rank);
    const std::string key = ctx->scoped_name(name);
    const SegmentInput& input = *ctx->shared->input;
    at::Tensor values;
    if (input.replay_draws != nullptr && input.replay_draws->contains(key)) {
      values = input.replay_draws->at(key);
      if (values.sizes() != at::IntArrayRef(dims))
        throw CallError(MNEME_E_SHAPE,
                        str("replayed draw \"", key, "\": expected ", list_text(dims), ", got ",
                            list_text(values.sizes().vec())));
    } else {
      values = draw(ctx, law, name, dims);
    }
    if (input.recorded_draws != nullptr) (*input.recorded_draws)[key] = values;
    *out = ctx->handles.give(tensor::to_device(values.to(ops::scalar_type_of(shape.dtype)),
                                               ctx->shared->stack->backbone().device));
  });
}

}  // namespace

const mneme_random_api* random_api() {
  static const mneme_random_api api = {sizeof(mneme_random_api), 0, named_draw<&Random::uniform>,
                                       named_draw<&Random::normal>};
  return &api;
}

}  // namespace mneme::memory
