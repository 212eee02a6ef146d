// Groups mneme.probe/1 and mneme.log/1.
#include "host/base/error.hpp"
#include "host/base/log.hpp"
#include "host/memory/abi/groups.hpp"
#include "host/memory/abi/hook_context.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::memory {
namespace {

std::string probe_key(const mneme_ctx* ctx, const char* name) {
  return str(ctx->tier->name(), ".", ctx->layer < 0 ? std::string("model") : str(ctx->layer), ".",
             name);
}

bool is_wanted(const mneme_ctx* ctx, const char* name) {
  const SegmentInput& input = *ctx->shared->input;
  return input.probes != nullptr && name != nullptr && input.wanted_probes.contains(name);
}

// Nobody wants what a hook that does not run publishes.
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
    return;  // a log line that cannot be written is not worth a failure in a plugin
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
