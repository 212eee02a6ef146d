// Groups mneme.config/1 (an instance's options, already checked against the plugin's schema),
// mneme.random/1, mneme.probe/1 and mneme.log/1.

#include "host/base/error.hpp"
#include "host/base/log.hpp"
#include "host/base/random.hpp"
#include "host/memory/abi/groups.hpp"
#include "host/memory/abi/hook_context.hpp"
#include "host/memory/call/live_call.hpp"
#include "host/memory/call/normalise.hpp"
#include "host/memory/tier/setup.hpp"
#include "host/ops/op_table.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::memory {
namespace {

mneme_status integer(mneme_setup* opaque, const char* key, int64_t* out, mneme_error* error) {
  return in_create(opaque, error, [&](mneme_setup* setup) {
    need(key, "key");
    need(out, "out");
    *out = setup->options->integer(key);
  });
}
mneme_status real(mneme_setup* opaque, const char* key, double* out, mneme_error* error) {
  return in_create(opaque, error, [&](mneme_setup* setup) {
    need(key, "key");
    need(out, "out");
    *out = setup->options->real(key);
  });
}
mneme_status boolean(mneme_setup* opaque, const char* key, int32_t* out, mneme_error* error) {
  return in_create(opaque, error, [&](mneme_setup* setup) {
    need(key, "key");
    need(out, "out");
    *out = setup->options->boolean(key) ? 1 : 0;
  });
}
mneme_status text(mneme_setup* opaque, const char* key, const char** out, mneme_error* error) {
  return in_create(opaque, error, [&](mneme_setup* setup) {
    need(key, "key");
    need(out, "out");
    *out = setup->options->text(key).c_str();
  });
}
mneme_status integers(mneme_setup* opaque, const char* key, const int64_t** out, uint64_t* count,
                      mneme_error* error) {
  return in_create(opaque, error, [&](mneme_setup* setup) {
    need(key, "key");
    need(out, "out");
    need(count, "count");
    const auto& values = setup->options->integers(key);
    *out = values.data();
    *count = values.size();
  });
}
mneme_status reals(mneme_setup* opaque, const char* key, const double** out, uint64_t* count,
                   mneme_error* error) {
  return in_create(opaque, error, [&](mneme_setup* setup) {
    need(key, "key");
    need(out, "out");
    need(count, "count");
    const auto& values = setup->options->reals(key);
    *out = values.data();
    *count = values.size();
  });
}

}  // namespace

const mneme_config_api* config_api() {
  static const mneme_config_api api = {
      sizeof(mneme_config_api), 0, integer, real, boolean, text, integers, reals};
  return &api;
}

// --- Group mneme.random/1 ---
// Draws are keyed by (seed, tier, layer, the lane's stream, segment, name), in the later steps of
// an open segment by the step's offset too.

namespace {

enum class Law { kUniform, kNormal };

std::string draw_key(const mneme_ctx* ctx, const char* name) {
  return str(ctx->tier->name(), ".", ctx->layer < 0 ? std::string("model") : str(ctx->layer), ".",
             name);
}

at::Tensor draw(const mneme_ctx* ctx, Law law, const char* name, const std::vector<int64_t>& dims) {
  at::Tensor out = torch::empty(dims, at::kDouble);
  const int64_t lanes = dims[0];
  const int64_t per_lane = lanes == 0 ? 0 : out.numel() / lanes;
  double* data = out.mutable_data_ptr<double>();
  const SegmentShared& shared = *ctx->shared;
  const int64_t offset = shared.segment.offset;
  // A plugin's names are C strings and hold no zero byte, so this suffix cannot collide with one.
  const std::string key = offset > 0 ? str(name, '\0', offset) : std::string(name);
  for (int64_t b = 0; b < lanes; ++b) {
    Random random(shared.seed, {"memory", static_cast<uint64_t>(ctx->tier->index()),
                                static_cast<uint64_t>(ctx->layer + 1),
                                (*shared.streams)[static_cast<std::size_t>(b)],
                                static_cast<uint64_t>(shared.index), std::string_view(key)});
    for (int64_t i = 0; i < per_lane; ++i)
      data[b * per_lane + i] = law == Law::kUniform ? random.uniform() : random.normal();
  }
  return out;
}

mneme_status named_draw(mneme_ctx* opaque, Law law, const char* name, const mneme_shape* given,
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
    const std::vector<int64_t> dims(shape.dims, shape.dims + shape.rank);
    const std::string key = draw_key(ctx, name);
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
    *out = ctx->handles.give(
        values.to(ctx->shared->stack->backbone().device, ops::scalar_type_of(shape.dtype)));
  });
}

mneme_status uniform(mneme_ctx* ctx, const char* name, const mneme_shape* shape, mneme_tensor* out,
                     mneme_error* error) {
  return named_draw(ctx, Law::kUniform, name, shape, out, error);
}

mneme_status normal(mneme_ctx* ctx, const char* name, const mneme_shape* shape, mneme_tensor* out,
                    mneme_error* error) {
  return named_draw(ctx, Law::kNormal, name, shape, out, error);
}

}  // namespace

const mneme_random_api* random_api() {
  static const mneme_random_api api = {sizeof(mneme_random_api), 0, uniform, normal};
  return &api;
}

// --- Groups mneme.probe/1 and mneme.log/1 ---

namespace {

std::string probe_key(const mneme_ctx* ctx, const char* name) {
  return str(ctx->tier->name(), ".", ctx->layer < 0 ? std::string("model") : str(ctx->layer), ".",
             name);
}

bool is_wanted(const mneme_ctx* ctx, const char* name) {
  const SegmentInput& input = *ctx->shared->input;
  if (input.probes == nullptr || name == nullptr) return false;
  return input.wanted_probes.contains(name) || input.wanted_probes.contains(kEveryProbe);
}

// Outside of a hook nothing is wanted.
int32_t wanted(mneme_ctx* opaque, const char* name) {
  bool found = false;
  const mneme_status status =
      in_hook(opaque, nullptr, [&](const mneme_ctx* ctx) { found = is_wanted(ctx, name); });
  return status == MNEME_OK && found ? 1 : 0;
}

mneme_status publish(mneme_ctx* opaque, const char* name, mneme_tensor value, mneme_error* error) {
  return in_hook(opaque, error, [&](mneme_ctx* ctx) {
    const at::Tensor& tensor = ctx->handles.get(value);
    if (is_wanted(ctx, name)) (*ctx->shared->input->probes)[probe_key(ctx, name)] = tensor.detach();
  });
}

void write(const mneme_host* /*host*/, uint32_t level, const char* plugin_id, const char* text,
           uint64_t length) {
  try {
    const std::string line =
        str(plugin_id == nullptr ? "plugin" : plugin_id, ": ",
            std::string_view(text == nullptr ? "" : text, text == nullptr ? 0 : length));
    switch (level) {
      case MNEME_LOG_DEBUG:
        log_debug(line);
        break;
      case MNEME_LOG_WARNING:
        log_warning(line);
        break;
      case MNEME_LOG_ERROR:
        log_error(line);
        break;
      case MNEME_LOG_INFO:
        log_info(line);
        break;
      default:
        log_warning(
            str(line, " (logged at the unknown level ", level, ": expected one of MNEME_LOG_*)"));
    }
  } catch (...) {
    return;  // a log line that cannot be written must not make the plugin fail
  }
}

}  // namespace

const mneme_probe_api* probe_api() {
  static const mneme_probe_api api = {sizeof(mneme_probe_api), 0, wanted, publish};
  return &api;
}

const mneme_log_api* log_api() {
  static const mneme_log_api api = {sizeof(mneme_log_api), 0, write};
  return &api;
}

}  // namespace mneme::memory
