// Groups mneme.report/1 (auxiliary losses and metrics, summed until the segment's end),
// mneme.probe/1 and mneme.log/1.
#include <array>
#include <map>
#include <string>

#include "host/base/log.hpp"
#include "host/base/text.hpp"
#include "host/memory/abi/groups.hpp"
#include "host/memory/abi/hook_call.hpp"
#include "host/memory/call/boundary.hpp"
#include "host/plugin/plugin_options.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::memory {
namespace {

// Adds weight * value and weight to the sums of (name, layer). value [B] or [], weight [B] or
// undefined.
void accumulate(mneme_ctx* ctx, std::map<std::string, Accumulated>& into, const char* name,
                mneme_tensor value_handle, mneme_tensor weight_handle, bool is_metric) {
  if (name == nullptr || *name == '\0')
    throw CallError(MNEME_E_INVALID_ARGUMENT, "a loss or metric needs a name");
  at::Tensor value = ctx->handles.get(value_handle);
  at::Tensor weight = ctx->handles.get_optional(weight_handle);
  if (is_metric) value = value.detach();
  const std::int64_t lanes = ctx->shared->lanes;
  const auto fits = [&](const at::Tensor& t) {
    return t.dim() == 0 || (t.dim() == 1 && t.size(0) == lanes);
  };
  if (!fits(value) || (weight.defined() && !fits(weight))) {
    throw CallError(
        MNEME_E_SHAPE,
        str("\"", name, "\": value and weight are [B] or [], B = ", lanes, "; got value ",
            list_text(value.sizes().vec()),
            weight.defined() ? str(", weight ", list_text(weight.sizes().vec())) : std::string()));
  }
  if (!value.is_floating_point())
    throw CallError(MNEME_E_DTYPE, str("\"", name, "\": value must be a floating-point tensor"));
  if (!weight.defined()) weight = torch::ones({lanes}, value.options().requires_grad(false));
  const at::Tensor spread = weight.expand({lanes});
  const at::Tensor counted = at::where(spread > 0, value, torch::zeros({}, value.options()));
  if (!is_metric) ctx->check_output("auxiliary loss", counted, Holds::kFinite, name);
  const at::Tensor sum = (spread * counted).sum();
  const at::Tensor total = weight.expand({lanes}).sum();
  Accumulated& entry = into[ctx->tier->name() + "." + name];
  entry.weight = ctx->tier->loss_weight(name);
  auto [place, fresh] = entry.by_layer.try_emplace(ctx->layer, sum, total);
  if (!fresh) place->second = {place->second.first + sum, place->second.second + total};
}

mneme_status aux(mneme_ctx* opaque, const char* name, mneme_tensor value, mneme_tensor weight,
                 mneme_error* error) {
  return in_hook(opaque, error, [&](mneme_ctx* ctx) {
    if (name != nullptr) plugin::check_declared(ctx->tier->loss_names(), name);
    accumulate(ctx, ctx->shared->losses, name, value, weight, false);
  });
}

mneme_status metric(mneme_ctx* opaque, const char* name, mneme_tensor value, mneme_tensor weight,
                    mneme_error* error) {
  return in_hook(opaque, error, [&](mneme_ctx* ctx) {
    accumulate(ctx, ctx->shared->metrics, name, value, weight, true);
  });
}

}  // namespace

const mneme_report_api* report_api() {
  static const mneme_report_api api = {sizeof(mneme_report_api), 0, aux, metric};
  return &api;
}

// --- Groups mneme.probe/1 and mneme.log/1 ---

namespace {

bool is_wanted(const mneme_ctx* ctx, const char* name) {
  const SegmentInput& input = *ctx->shared->input;
  if (input.probes == nullptr || name == nullptr) return false;
  return input.wanted_probes.contains(name) || input.wanted_probes.contains(kEveryProbe);
}

// Outside of a hook nothing is wanted.
std::int32_t wanted(mneme_ctx* opaque, const char* name) {
  bool found = false;
  const mneme_status status =
      in_hook(opaque, nullptr, [&](const mneme_ctx* ctx) { found = is_wanted(ctx, name); });
  return status == MNEME_OK && found ? 1 : 0;
}

mneme_status publish(mneme_ctx* opaque, const char* name, mneme_tensor value, mneme_error* error) {
  return in_hook(opaque, error, [&](mneme_ctx* ctx) {
    const at::Tensor& tensor = ctx->handles.get(value);
    if (is_wanted(ctx, name))
      (*ctx->shared->input->probes)[ctx->scoped_name(name)] = tensor.detach();
  });
}

void write(const mneme_host* /*host*/, std::uint32_t level, const char* plugin_id, const char* text,
           std::uint64_t length) {
  try {
    const std::string line =
        str(plugin_id == nullptr ? "plugin" : plugin_id, ": ",
            std::string_view(text == nullptr ? "" : text, text == nullptr ? 0 : length));
    constexpr std::array kLevels = {LogLevel::kDebug, LogLevel::kInfo, LogLevel::kWarning,
                                    LogLevel::kError};  // by MNEME_LOG_*, from 1
    if (level - 1 < kLevels.size()) {
      if (is_logged(kLevels[level - 1])) log(kLevels[level - 1], line);
    } else {
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
