// What the constructor of a tier gets: the backbone's sizes, options, and declarations.
#pragma once

#include <string_view>

#include "mneme/cpp/kernel.hpp"
#include "mneme/cpp/state.hpp"

namespace mneme {
inline namespace sdk_0_1 {

// Lives during the constructor. Functions throw Failure with the host's code and text when the host
// refuses; the comments of mneme_config_api, mneme_state_api and mneme_kernel_api name the codes.
class Setup {
 public:
  Setup(mneme_setup* setup, const mneme_model_info& model, detail::Directory& directory)
      : setup_(setup), model_(&model), directory_(&directory) {}
  Setup(const Setup&) = delete;
  Setup& operator=(const Setup&) = delete;

  // The backbone, as mneme_model_info describes it.
  int64_t width() const noexcept { return model_->width; }            // D
  int64_t heads() const noexcept { return model_->heads; }            // H
  int64_t kv_heads() const noexcept { return model_->kv_heads; }      // G; divides H
  int64_t head_width() const noexcept { return model_->head_width; }  // d
  int64_t layers() const noexcept { return model_->layers; }          // L
  // Indices of the layers that this tier serves, ascending.
  std::vector<int64_t> served() const {
    return {model_->served, model_->served + model_->served_count};
  }
  int64_t segment() const noexcept { return model_->segment; }  // T of the run
  // Segments through which a slot of Gradient::kThrough keeps its graph.
  int64_t bptt_segments() const noexcept { return model_->bptt_segments; }
  // model.position: "relative", "disentangled", "alibi", "learned", ... Valid in the constructor.
  std::string_view position() const noexcept { return model_->position; }
  double attention_dropout() const noexcept { return model_->attention_dropout; }
  DType compute_dtype() const noexcept { return static_cast<DType>(model_->compute_dtype); }
  bool is_evaluation() const noexcept { return (model_->flags & MNEME_MODEL_EVALUATION) != 0; }
  bool is_pre_norm() const noexcept { return (model_->flags & MNEME_MODEL_PRE_NORM) != 0; }

  // Values of this instance's options, checked against kOptions. Errors: MNEME_E_INVALID_ARGUMENT
  // for a key that kOptions does not have, or has with another type.
  int64_t integer(const char* key, CallSite site = CallSite::here()) const {
    int64_t value = 0;
    read_option(site, &mneme_config_api::integer, key, &value);
    return value;
  }
  double real(const char* key, CallSite site = CallSite::here()) const {
    double value = 0.0;
    read_option(site, &mneme_config_api::real, key, &value);
    return value;
  }
  bool boolean(const char* key, CallSite site = CallSite::here()) const {
    int32_t value = 0;
    read_option(site, &mneme_config_api::boolean, key, &value);
    return value != 0;
  }
  // Also for choices.
  std::string text(const char* key, CallSite site = CallSite::here()) const {
    const char* value = nullptr;
    read_option(site, &mneme_config_api::text, key, &value);
    return value;
  }
  std::vector<int64_t> integers(const char* key, CallSite site = CallSite::here()) const {
    const int64_t* values = nullptr;
    uint64_t count = 0;
    read_option(site, &mneme_config_api::integers, key, &values, &count);
    return {values, values + count};
  }
  std::vector<double> reals(const char* key, CallSite site = CallSite::here()) const {
    const double* values = nullptr;
    uint64_t count = 0;
    read_option(site, &mneme_config_api::reals, key, &values, &count);
    return {values, values + count};
  }

  // Declares a learned tensor of this shape, one for each layer served or one for the model: f32,
  // f64 in f64 runs. Errors: MNEME_E_INVALID_ARGUMENT for a bad or taken name, MNEME_E_SHAPE.
  Parameter parameter(const char* name, const Shape& shape, Init init = zeros(),
                      const ParameterSettings& settings = {}, CallSite site = CallSite::here()) {
    mneme_parameter_decl decl = MNEME_INIT(mneme_parameter_decl);
    decl.name = name;
    decl.scope = static_cast<uint32_t>(settings.scope);
    decl.rank = static_cast<uint32_t>(shape.rank());
    for (int64_t i = 0; i < shape.rank(); ++i) decl.dims[i] = shape[i];
    decl.init = init.rule;
    decl.value = init.value;
    decl.mean = init.mean;
    decl.deviation = init.deviation;
    decl.low = init.low;
    decl.high = init.high;
    decl.gain = init.gain;
    decl.fan_in = init.fan_in;
    decl.lr_factor = settings.lr_factor;
    decl.group = settings.group;
    Parameter out;
    detail::HostError error;
    detail::check(state(site).add_parameter(setup_, &decl, &out.id, &error.raw), error, site);
    directory_->parameters.push_back({name, out});
    return out;
  }

  // Declares state in a tensor. The first extent is kLanes for state that belongs to lanes; kAny is
  // an extent that changes with what is written. Errors: as parameter.
  Slot slot(const char* name, const Shape& shape, const SlotStart& start = zeros(),
            const SlotSettings& settings = {}, CallSite site = CallSite::here()) {
    mneme_slot_decl decl = MNEME_INIT(mneme_slot_decl);
    decl.flags = settings.flags;
    decl.name = name;
    decl.scope = static_cast<uint32_t>(settings.scope);
    decl.dtype = static_cast<uint32_t>(settings.dtype);
    decl.gradient = static_cast<uint32_t>(settings.gradient);
    decl.lifetime = static_cast<uint32_t>(settings.lifetime);
    decl.rank = static_cast<uint32_t>(shape.rank());
    decl.revision = settings.revision;
    for (int64_t i = 0; i < shape.rank(); ++i) decl.dims[i] = shape[i];
    decl.start = start.start;
    decl.start_parameter = start.parameter;
    decl.start_value = start.value;
    Slot out;
    detail::HostError error;
    detail::check(state(site).add_slot(setup_, &decl, &out.id, &error.raw), error, site);
    directory_->slots.push_back({name, out});
    return out;
  }

  // Declares state in whole numbers that stay on the CPU and that hooks read: one for each lane, 0
  // in a lane that starts afresh. Errors: as parameter.
  Counts counts(const char* name, Scope scope = Scope::kLayer, uint32_t revision = 0,
                CallSite site = CallSite::here()) {
    SlotSettings settings;
    settings.dtype = DType::kI64;
    settings.scope = scope;
    settings.revision = revision;
    settings.flags = MNEME_SLOT_COUNTS;
    const Counts out{slot(name, {kLanes}, zeros(), settings, site).id};
    directory_->counts.push_back({name, out});
    return out;
  }

  // Declares state in rows, first in first out. Errors: as parameter.
  Queue queue(const char* name, const QueueSettings& settings = {},
              CallSite site = CallSite::here()) {
    mneme_queue_decl decl = MNEME_INIT(mneme_queue_decl);
    decl.name = name;
    decl.scope = static_cast<uint32_t>(settings.scope);
    decl.kind = static_cast<uint32_t>(settings.kind);
    decl.attributes = settings.attributes;
    decl.revision = settings.revision;
    decl.start_rows = settings.start_rows;
    decl.capacity = settings.capacity;
    Queue out;
    detail::HostError error;
    detail::check(state(site).add_queue(setup_, &decl, &out.id, &error.raw), error, site);
    directory_->queues.push_back({name, out});
    return out;
  }

  // Declares a kernel (kernel.hpp). It is used in every call, until the tier is destroyed: keep it
  // in a member of the tier. Errors: MNEME_E_INVALID_ARGUMENT for a kernel with too many ports.
  template <typename K>
  KernelId kernel(const K& kernel, CallSite site = CallSite::here()) {
    const auto& api = detail::group(detail::groups.kernel, MNEME_GROUP_KERNEL, site);
    const mneme_kernel_decl decl = detail::declare_kernel(kernel);
    KernelId out;
    out.outputs = decl.n_outputs;
    detail::HostError error;
    detail::check(api.add(setup_, &decl, &out.id, &error.raw), error, site);
    directory_->kernels.push_back({decl.name, out});
    return out;
  }

  // What the tier is (mneme_tier_traits). Without these functions absorb runs at stage 7, after the
  // segment, and read at MNEME_SITE_OUT, where the class overrides them.
  void absorbs_before_reading() noexcept { traits_.absorb = MNEME_ABSORB_BEFORE_READING; }
  void absorbs_after_segment() noexcept { traits_.absorb = MNEME_ABSORB_AFTER_SEGMENT; }
  void reads_at(uint32_t sites) noexcept { traits_.sites |= sites; }
  // Tensors for absorb, read and finish: MNEME_WANT_* bits.
  void wants(uint64_t bits) noexcept { traits_.wants |= bits; }
  // Most rows that context emits for a layer, riders included. The host refuses more.
  void context_rows(int64_t rows) noexcept { traits_.context_rows = rows; }
  // Most rows of queues that read looks at in a layer beside those. The host refuses more. Without
  // this call reports give the most rows that read was seen to look at.
  void read_rows(int64_t rows) noexcept { traits_.read_rows = rows; }
  // Longest segment that the tier can serve.
  void max_segment(int64_t length) noexcept { traits_.max_segment = length; }
  // The tier calls Layer::release.
  void releases() noexcept { traits_.flags |= MNEME_TIER_RELEASES; }
  // The tier calls Layer::emit_token_bias.
  void emits_token_bias() noexcept { traits_.flags |= MNEME_TIER_TOKEN_BIAS; }
  // With these options begin never gives riders, although the class overrides ride.
  void has_no_riders() noexcept { rides_ = false; }
  // Losses do not depend on how a text is cut into segments, as long as no row is dropped.
  void is_cut_invariant() noexcept { traits_.flags |= MNEME_TIER_CUT_INVARIANT; }

  // Keys and values come and go with kv_heads() heads; without it with heads(), in copies where
  // heads share them (MNEME_TIER_GROUPED_KEYS).
  void takes_grouped_keys() noexcept { traits_.flags |= MNEME_TIER_GROUPED_KEYS; }

  // The tier replaces the attention of the layers that it serves: `read`, at its one site, gives
  // replace(out). The host has only the projections that `wants` names, with heads of these widths;
  // 0 = head_width() (MNEME_TIER_REPLACES_ATTENTION).
  void replaces_attention(int64_t key_width = 0, int64_t value_width = 0) noexcept {
    traits_.flags |= MNEME_TIER_REPLACES_ATTENTION;
    traits_.key_width = key_width;
    traits_.value_width = value_width;
  }

  const mneme_tier_traits& traits() const noexcept { return traits_; }
  bool rides() const noexcept { return rides_; }

 private:
  template <typename Function, typename... Out>
  void read_option(CallSite site, Function function, const char* key, Out... out) const {
    const auto& api = detail::group(detail::groups.config, MNEME_GROUP_CONFIG, site);
    detail::HostError error;
    detail::check((api.*function)(setup_, key, out..., &error.raw), error, site);
  }
  static const mneme_state_api& state(CallSite site) {
    return detail::group(detail::groups.state, MNEME_GROUP_STATE, site);
  }

  mneme_setup* setup_;
  const mneme_model_info* model_;
  detail::Directory* directory_;
  mneme_tier_traits traits_ = MNEME_INIT(mneme_tier_traits);
  bool rides_ = true;
};

}  // namespace sdk_0_1
}  // namespace mneme
