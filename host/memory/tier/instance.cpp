#include "host/memory/tier/instance.hpp"

#include <utility>

#include "host/base/error.hpp"
#include "host/memory/call/boundary.hpp"
#include "host/memory/tier/setup.hpp"
#include "host/plugin/known_fields.hpp"
#include "host/plugin/reported_call.hpp"
#include "host/tensor/dtypes.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::memory {
namespace {

mneme_model_info model_info(const BackboneInfo& backbone, const std::vector<std::int64_t>& served,
                            Phase phase) {
  mneme_model_info info = MNEME_INIT(mneme_model_info);
  info.flags = (phase == Phase::kEvaluation ? MNEME_MODEL_EVALUATION : 0u) |
               (backbone.is_pre_norm ? MNEME_MODEL_PRE_NORM : 0u);
  info.width = backbone.width;
  info.heads = backbone.heads;
  info.head_width = backbone.head_width;
  info.layers = backbone.layers;
  info.served = served.data();
  info.served_count = static_cast<std::int64_t>(served.size());
  info.segment = phase == Phase::kEvaluation ? backbone.eval_segment : backbone.train_segment;
  info.bptt_segments = backbone.bptt_segments;
  info.position = backbone.position.c_str();
  info.compute_dtype = tensor::dtype_code_of(backbone.compute_dtype);
  info.attention_dropout = backbone.attention_dropout;
  info.kv_heads = backbone.key_heads();
  return info;
}

}  // namespace

Instance::Instance(const plugin::LoadedPlugin& plugin, config::OptionMap options,
                   const BackboneInfo& backbone, const std::vector<std::int64_t>& served,
                   Phase phase, const std::string& where)
    : plugin_(plugin), where_(str(where, ": plugin ", plugin.note.id)) {
  create(std::move(options), backbone, served, phase);
  try {
    check_traits();
  } catch (...) {
    destroy();
    throw;
  }
}

Instance::~Instance() { destroy(); }

at::Tensor Instance::seen_keys(const at::Tensor& rows) const {
  if (!rows.defined() || rows.size(2) == key_heads_) return rows;
  return rows.repeat_interleave(key_heads_ / rows.size(2), 2);
}

at::Tensor Instance::seen_key_weight(const at::Tensor& weight, std::int64_t head_width) const {
  const std::int64_t heads = weight.size(0) / head_width;
  if (heads == key_heads_) return weight;
  return weight.view({heads, head_width, -1})
      .repeat_interleave(key_heads_ / heads, 0)
      .reshape({key_heads_ * head_width, weight.size(1)});
}

void Instance::create(config::OptionMap options, const BackboneInfo& backbone,
                      std::vector<std::int64_t> served, Phase phase) {
  const plugin::ReportedCall reported(where_, "create");
  mneme_setup setup;
  setup.instance = this;
  setup.options = &options;
  setup.backbone = &backbone;
  const mneme_model_info info = model_info(backbone, served, phase);
  plugin::PluginFilled<mneme_tier_traits> filled;
  mneme_error error = MNEME_INIT(mneme_error);
  const LogListener listener([this](LogLevel level, std::string_view line) {
    logged.push_back({level, std::string(line)});
    return true;
  });
  const CallHandle call(HandleKind::kCreate, &setup);
  const mneme_status status = call_plugin(error, [&] {
    return plugin_.table->create(plugin_.host, call.setup(), &info, &filled.value, &handle_,
                                 &error);
  });
  traits_ = filled.value;
  key_heads_ =
      (traits_.flags & MNEME_TIER_GROUPED_KEYS) != 0 ? backbone.key_heads() : backbone.heads;
  key_width_ = traits_.key_width > 0 ? traits_.key_width : backbone.head_width;
  value_width_ = traits_.value_width > 0 ? traits_.value_width : backbone.head_width;
  for (QueueDecl& queue : queues) queue.key_heads = key_heads_;
  if (status != MNEME_OK) throw_plugin_status(where_ + ": create", status, error);
  if (handle_ == nullptr) {
    throw_plugin(ErrorText{.where = where_ + ": create",
                           .failed = "MNEME_OK without an instance",
                           .expected = "its address in *instance",
                           .got = "NULL",
                           .hint = "a memory without anything to keep gives the address of a "
                                   "static variable"});
  }
}

// Results are written by then, so an exception from `destroy` is only logged.
void Instance::destroy() noexcept {
  const plugin::ReportedCall reported(where_, "destroy");
  mneme_error error = MNEME_INIT(mneme_error);
  const mneme_status status = call_plugin(error, [&] {
    plugin_.table->destroy(handle_);
    return mneme_status{MNEME_OK};
  });
  if (status == MNEME_OK) return;
  try {
    log_error(where_, ": destroy: ", plugin_error_text(status, error));
  } catch (...) {
    return;  // out of memory: the message cannot be logged
  }
}

std::optional<ReplacedAttention> Instance::replaced_attention() const {
  if (!replaces_attention()) return std::nullopt;
  return ReplacedAttention{.queries = wants(MNEME_WANT_READ_Q | MNEME_WANT_ABSORB_Q),
                           .keys = wants(MNEME_WANT_READ_K | MNEME_WANT_ABSORB_K),
                           .values = wants(MNEME_WANT_READ_V | MNEME_WANT_ABSORB_V),
                           .output = traits_.sites == MNEME_SITE_HEADS,
                           .key_width = key_width_,
                           .value_width = value_width_};
}

void Instance::refuse(const std::string& failed, const std::string& hint) const {
  throw_plugin(ErrorText{.where = where_ + ": create", .failed = failed, .hint = hint});
}

void Instance::check_replacement() const {
  if (traits_.key_width < 0 || traits_.value_width < 0)
    refuse("a width in traits is negative", "0 means the layer's head width");
  if (!replaces_attention()) {
    if (traits_.key_width != 0 || traits_.value_width != 0)
      refuse(
          "traits.key_width and value_width are those of a tier that replaces the attention, and "
          "traits.flags does not say so",
          "set MNEME_TIER_REPLACES_ATTENTION, or leave them 0");
    return;
  }
  const std::string subject = "a tier that replaces the attention ";
  if (table().context != nullptr || (traits_.flags & MNEME_TIER_TOKEN_BIAS) != 0)
    refuse(
        subject + "has no context: no token attends to rows, and no score gets a bias",
        "leave out the hook context and MNEME_TIER_TOKEN_BIAS, or MNEME_TIER_REPLACES_ATTENTION");
  if ((traits_.flags & MNEME_TIER_RIDERS) != 0)
    refuse(subject + "has no riders: they pass through attention",
           "leave out MNEME_TIER_RIDERS or MNEME_TIER_REPLACES_ATTENTION");
  if (traits_.sites != MNEME_SITE_HEADS && traits_.sites != MNEME_SITE_OUT)
    refuse(str(subject, "reads at one site, but traits.sites names ",
               traits_.sites == 0 ? "none" : "both"),
           "name MNEME_SITE_HEADS, where the host's output projection follows, or MNEME_SITE_OUT");
  constexpr std::uint64_t kOfAttention = MNEME_WANT_ABSORB_Z | MNEME_WANT_ABSORB_LSE |
                                         MNEME_WANT_ABSORB_MASS | MNEME_WANT_ABSORB_CONTEXT_KV |
                                         MNEME_WANT_READ_Z | MNEME_WANT_READ_LSE |
                                         MNEME_WANT_READ_PROJECTED;
  for (const plugin::Want& want : plugin::kWants) {
    if ((traits_.wants & kOfAttention & want.bit) != 0)
      refuse(str(subject, "cannot have ", want.input, " in ", want.hook,
                 ": the attention's results do not exist"),
             str("remove ", want.name, " from traits.wants"));
  }
}

void Instance::check_traits() const {
  if (const auto unknown = plugin::unknown_value(traits_))
    refuse("traits." + unknown->text(), "leave them 0, or use a newer mneme");
  if (traits_.absorb != MNEME_ABSORB_NEVER && table().absorb == nullptr)
    refuse("traits.absorb names a stage, but the plugin has no absorb hook",
           "set the hook, or MNEME_ABSORB_NEVER");
  if (traits_.absorb == MNEME_ABSORB_NEVER && table().absorb != nullptr)
    refuse("the plugin has an absorb hook, but traits.absorb is MNEME_ABSORB_NEVER",
           "say when the hook runs");
  if (traits_.sites != 0 && table().read == nullptr)
    refuse("traits.sites names a site, but the plugin has no read hook",
           "set the hook, or leave sites 0");
  if (traits_.sites == 0 && table().read != nullptr)
    refuse("the plugin has a read hook, but traits.sites is 0", "name the site");
  constexpr std::uint64_t kLocal = MNEME_WANT_ABSORB_Z | MNEME_WANT_ABSORB_LSE |
                                   MNEME_WANT_ABSORB_Q | MNEME_WANT_ABSORB_K | MNEME_WANT_ABSORB_V |
                                   MNEME_WANT_ABSORB_MASS | MNEME_WANT_ABSORB_CONTEXT_KV;
  if (traits_.absorb == MNEME_ABSORB_BEFORE_READING && wants(kLocal))
    refuse(
        "absorb runs before reading, where z, lse, q, k, v, mass and the context's keys and "
        "values do not exist yet, but "
        "traits.wants names one of them",
        "absorb after the segment, or remove it from traits.wants");
  if ((traits_.flags & MNEME_TIER_RIDERS) != 0 &&
      (table().begin == nullptr || table().ride == nullptr))
    refuse("MNEME_TIER_RIDERS needs the hooks begin and ride", "set both hooks");
  if (traits_.context_rows < 0 || traits_.max_segment < 0 || traits_.read_rows < 0)
    refuse("a size in traits is negative", "0 means none");
  check_replacement();
}

}  // namespace mneme::memory
