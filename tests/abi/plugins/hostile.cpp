// Written against the C headers alone, without the trampolines of plugin.hpp: lets a C++ exception
// out of one function, or uses the host against its rules, as option `act` says.
#include <cstring>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "mneme/sdk.h"

namespace {

const mneme_config_api* config;
const mneme_kernel_api* kernels;
const mneme_parallel_api* parallel;
const mneme_probe_api* probes;
const mneme_state_api* state;
const mneme_tensor_api* tensors;
const mneme_host* the_host;

struct Hostile {
  std::string act;
  mneme_kernel kernel = 0;
  mneme_ctx* kept_ctx = nullptr;
  mneme_setup* kept_setup = nullptr;
  int64_t width = 0;

  bool does(const std::string& what) const { return act == what; }
  void may_throw(const char* function) const {
    if (act == std::string("throw_in_") + function)
      throw std::runtime_error(std::string("thrown in ") + function);
  }
};

Hostile& self_of(void* instance) { return *static_cast<Hostile*>(instance); }

mneme_status infer(void* user, mneme_kernel_plan* plan, mneme_error* /*error*/) {
  self_of(user).may_throw("infer");
  if (!self_of(user).does("no_shape")) plan->outputs[0] = plan->inputs[0];
  return MNEME_OK;
}

void clear(const mneme_view& view) {
  int64_t elements = 1;
  for (int32_t d = 0; d < view.ndim; ++d) elements *= view.shape[d];
  std::memset(view.data, 0, static_cast<size_t>(elements * view.dtype_bits / 8));
}

mneme_status forward(void* user, const mneme_kernel_call* call, mneme_error* /*error*/) {
  self_of(user).may_throw("forward");
  clear(call->outputs[0]);
  if (self_of(user).does("throw_in_body"))
    parallel->run(
        the_host, 64, 1,
        [](void* instance, int64_t, int64_t) { self_of(instance).may_throw("body"); }, user);
  return MNEME_OK;
}

mneme_status backward(void* user, const mneme_kernel_call* call, mneme_error* /*error*/) {
  self_of(user).may_throw("backward");
  clear(call->grad_inputs[0]);
  return MNEME_OK;
}

mneme_status init(const mneme_host* host, mneme_get_group_fn get_group, mneme_error* /*error*/) {
  the_host = host;
  const auto find = [&](auto& group, const char* id) {
    group = static_cast<std::remove_reference_t<decltype(group)>>(get_group(host, id));
  };
  find(config, MNEME_GROUP_CONFIG);
  find(kernels, MNEME_GROUP_KERNEL);
  find(parallel, MNEME_GROUP_PARALLEL);
  find(probes, MNEME_GROUP_PROBE);
  find(state, MNEME_GROUP_STATE);
  find(tensors, MNEME_GROUP_TENSOR);
  return MNEME_OK;
}

mneme_status create(const mneme_host* /*host*/, mneme_setup* setup, const mneme_model_info* model,
                    mneme_tier_traits* traits, void** instance, mneme_error* error) {
  const char* act = nullptr;
  mneme_status status = config->text(setup, "act", &act, error);
  if (status != MNEME_OK) return status;
  const std::string name = act;
  if (name == "throw_in_create") throw std::out_of_range("thrown in create");
  if (name == "throw_no_exception") throw 7;
  if (name == "null_setup") return config->text(nullptr, "act", &act, error);
  traits->absorb = MNEME_ABSORB_AFTER_SEGMENT;
  traits->sites = MNEME_SITE_OUT;
  traits->wants = MNEME_WANT_READ_PROJECTED;
  traits->flags = MNEME_TIER_RIDERS;
  traits->context_rows = name == "undeclared_riders" ? 0 : 1;
  if (name == "no_instance") return MNEME_OK;
  auto* self = new Hostile;
  self->act = name;
  self->kept_setup = setup;
  self->width = model->width;
  mneme_kernel_decl kernel = MNEME_INIT(mneme_kernel_decl);
  kernel.name = "zero";
  kernel.user = self;
  kernel.n_inputs = kernel.n_outputs = 1;
  kernel.infer = infer;
  kernel.forward_cpu = forward;
  kernel.backward_cpu = backward;
  status = kernels->add(setup, &kernel, &self->kernel, error);
  *instance = self;
  return status;
}

void destroy(void* instance) {
  const std::string act = self_of(instance).act;
  delete static_cast<Hostile*>(instance);
  if (act == "throw_in_destroy") throw std::runtime_error("thrown in destroy");
}

mneme_status begin(void* instance, mneme_ctx* ctx, const mneme_segment* segment, mneme_riders* out,
                   mneme_error* error) {
  Hostile& self = self_of(instance);
  self.may_throw("begin");
  if (self.kept_ctx == nullptr) self.kept_ctx = ctx;
  const auto change = [](const auto* values) {
    ++const_cast<std::remove_const_t<std::remove_pointer_t<decltype(values)>>*>(values)[0];
  };
  if (self.does("throw_in_ride") || self.does("undeclared_riders")) {
    mneme_shape shape = MNEME_INIT(mneme_shape);
    shape.dtype = MNEME_F64;
    shape.rank = 3;
    shape.dims[0] = segment->lanes;
    shape.dims[1] = 1;
    shape.dims[2] = self.width;
    const std::vector<double> zeros(static_cast<size_t>(segment->lanes * self.width));
    return tensors->from_data(ctx, &shape, zeros.data(), zeros.size() * sizeof(double), &out->rows,
                              error);
  }
  if (self.does("write_tokens")) change(segment->tokens);
  if (self.does("write_valid_count")) change(segment->valid_count);
  if (self.does("write_reset")) change(segment->reset);
  if (self.does("write_segment")) const_cast<mneme_segment*>(segment)->length = 3;
  const char* act = nullptr;
  if (self.does("stale_setup")) return config->text(self.kept_setup, "act", &act, error);
  if (self.does("ctx_as_setup"))
    return config->text(reinterpret_cast<mneme_setup*>(ctx), "act", &act, error);
  return MNEME_OK;
}

mneme_status absorb(void* instance, mneme_ctx* /*ctx*/, const mneme_absorb* /*in*/,
                    mneme_error* error) {
  Hostile& self = self_of(instance);
  self.may_throw("absorb");
  mneme_tensor out = 0;
  if (self.does("stale_ctx") && probes->wanted(self.kept_ctx, "anything") == 0)
    return state->slot_get(self.kept_ctx, 1, &out, error);
  if (self.does("null_ctx")) return tensors->constant_find(nullptr, "key", &out, error);
  if (self.does("made_up_ctx"))
    return tensors->retain(reinterpret_cast<mneme_ctx*>(&self), 1, error);
  return MNEME_OK;
}

mneme_status context(void* instance, mneme_ctx* /*ctx*/, const mneme_context* /*in*/,
                     mneme_error* /*error*/) {
  self_of(instance).may_throw("context");
  return MNEME_OK;
}

mneme_status ride(void* instance, mneme_ctx* /*ctx*/, const mneme_ride* /*in*/,
                  mneme_tensor* /*result*/, mneme_error* /*error*/) {
  self_of(instance).may_throw("ride");
  return MNEME_OK;
}

mneme_status read(void* instance, mneme_ctx* ctx, const mneme_queries* in, mneme_read* out,
                  mneme_error* error) {
  Hostile& self = self_of(instance);
  self.may_throw("read");
  out->merge = MNEME_MERGE_ADD;
  return kernels->call(ctx, self.kernel, &in->projected, 1, nullptr, 0, nullptr, 0, &out->out, 1,
                       error);
}

mneme_status finish(void* instance, mneme_ctx* /*ctx*/, const mneme_finish* /*in*/,
                    mneme_error* /*error*/) {
  self_of(instance).may_throw("finish");
  return MNEME_OK;
}

mneme_option act_option() {
  mneme_option option = MNEME_INIT(mneme_option);
  option.key = "act";
  option.help = "what is done against the rules";
  option.type = MNEME_OPTION_TEXT;
  option.default_text = "none";
  return option;
}

const mneme_option kOption = act_option();

mneme_plugin make_table() {
  mneme_plugin table = MNEME_INIT(mneme_plugin);
  table.id = "test.hostile";
  table.version = "0.1.0";
  table.summary = "breaks the rules";
  table.options = &kOption;
  table.option_count = 1;
  table.option_stride = sizeof(mneme_option);
  table.init = init;
  table.create = create;
  table.destroy = destroy;
  table.begin = begin;
  table.absorb = absorb;
  table.context = context;
  table.ride = ride;
  table.read = read;
  table.finish = finish;
  return table;
}

const mneme_plugin kTable = make_table();

}  // namespace

MNEME_PLUGIN_NOTE("test.hostile", "0.1.0",
                  "mneme.config/1 mneme.kernel/1 mneme.parallel/1 mneme.probe/1 mneme.state/1 "
                  "mneme.tensor/1");

extern "C" MNEME_EXPORT mneme_status mneme_negotiate_v1(const mneme_host_offer* offer,
                                                        mneme_plugin_answer* answer) {
  return mneme_sdk_negotiate(offer, answer, &kTable);
}
