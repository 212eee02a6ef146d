// Written against the C headers alone: keeps what a call or an instance was given in a static
// variable, by the option `key`, and uses it in every later read, as option `act` says.
#include <cstring>
#include <map>
#include <string>
#include <type_traits>
#include <vector>

#include "mneme/sdk.h"

namespace {

const mneme_config_api* config;
const mneme_kernel_api* kernels;
const mneme_layer_api* layers;
const mneme_op_api* ops;
const mneme_state_api* state;
const mneme_tensor_api* tensors;

// What is kept. The ids are those of the first instance with this key.
struct Kept {
  mneme_setup* setup = nullptr;
  mneme_ctx* ctx = nullptr;
  mneme_tensor handle = 0;
  mneme_parameter parameter = 0;
  mneme_slot slot = 0;
  mneme_queue queue = 0;
  mneme_kernel kernel = 0;
};

std::map<int64_t, Kept>& all_kept() {
  static std::map<int64_t, Kept> one;
  return one;
}

struct Keeping {
  std::string act;
  Kept* kept = nullptr;
  Kept own;

  bool does(const char* what) const { return act == what; }
};

Keeping& self_of(void* instance) { return *static_cast<Keeping*>(instance); }

mneme_status infer(void* /*user*/, mneme_kernel_plan* plan, mneme_error* /*error*/) {
  plan->outputs[0] = plan->inputs[0];
  return MNEME_OK;
}

void clear(const mneme_view& view) {
  int64_t elements = 1;
  for (int32_t d = 0; d < view.ndim; ++d) elements *= view.shape[d];
  std::memset(view.data, 0, static_cast<size_t>(elements * view.dtype_bits / 8));
}

mneme_status forward(void* /*user*/, const mneme_kernel_call* call, mneme_error* /*error*/) {
  clear(call->outputs[0]);
  return MNEME_OK;
}

mneme_status backward(void* user, const mneme_kernel_call* call, mneme_error* error) {
  const Keeping& self = self_of(user);
  clear(call->grad_inputs[0]);
  if (!self.does("backward")) return MNEME_OK;
  mneme_shape shape = MNEME_INIT(mneme_shape);
  return tensors->shape(self.kept->ctx, self.kept->handle, &shape, error);
}

mneme_status init(const mneme_host* host, mneme_get_group_fn get_group, mneme_error* /*error*/) {
  const auto find = [&](auto& group, const char* id) {
    group = static_cast<std::remove_reference_t<decltype(group)>>(get_group(host, id));
  };
  find(config, MNEME_GROUP_CONFIG);
  find(kernels, MNEME_GROUP_KERNEL);
  find(layers, MNEME_GROUP_LAYER);
  find(ops, MNEME_GROUP_OP);
  find(state, MNEME_GROUP_STATE);
  find(tensors, MNEME_GROUP_TENSOR);
  return MNEME_OK;
}

mneme_status declare(mneme_setup* setup, Keeping& self, mneme_error* error) {
  mneme_parameter_decl parameter = MNEME_INIT(mneme_parameter_decl);
  parameter.name = "weight";
  parameter.rank = 1;
  parameter.dims[0] = 1;
  mneme_status status = state->add_parameter(setup, &parameter, &self.own.parameter, error);
  mneme_slot_decl slot = MNEME_INIT(mneme_slot_decl);
  slot.name = "value";
  slot.rank = 2;
  slot.dims[0] = MNEME_LANES;
  slot.dims[1] = 1;
  if (self.does("start_parameter")) {
    slot.start = MNEME_START_PARAMETER;
    slot.start_parameter = self.kept->parameter != 0 ? self.kept->parameter : self.own.parameter;
  }
  if (status == MNEME_OK) status = state->add_slot(setup, &slot, &self.own.slot, error);
  mneme_queue_decl queue = MNEME_INIT(mneme_queue_decl);
  queue.name = "rows";
  if (status == MNEME_OK) status = state->add_queue(setup, &queue, &self.own.queue, error);
  mneme_kernel_decl kernel = MNEME_INIT(mneme_kernel_decl);
  kernel.name = "zero";
  kernel.user = &self;
  kernel.n_inputs = kernel.n_outputs = 1;
  kernel.infer = infer;
  kernel.forward_cpu = forward;
  kernel.backward_cpu = backward;
  return status == MNEME_OK ? kernels->add(setup, &kernel, &self.own.kernel, error) : status;
}

mneme_status create(const mneme_host* /*host*/, mneme_setup* setup,
                    const mneme_model_info* /*model*/, mneme_tier_traits* traits, void** instance,
                    mneme_error* error) {
  const char* act = nullptr;
  int64_t key = 0;
  mneme_status status = config->text(setup, "act", &act, error);
  if (status == MNEME_OK) status = config->integer(setup, "key", &key, error);
  if (status != MNEME_OK) return status;
  traits->sites = MNEME_SITE_OUT;
  traits->wants = MNEME_WANT_READ_PROJECTED;
  auto* self = new Keeping;
  self->act = act;
  self->kept = &all_kept()[key];
  status = declare(setup, *self, error);
  if (status != MNEME_OK) {
    delete self;
    return status;
  }
  if (self->kept->setup == nullptr) {
    self->own.setup = setup;
    *self->kept = self->own;
  }
  *instance = self;
  return MNEME_OK;
}

void destroy(void* instance) { delete static_cast<Keeping*>(instance); }

mneme_status context(void* instance, mneme_ctx* ctx, const mneme_context* /*in*/,
                     mneme_error* error) {
  const Keeping& self = self_of(instance);
  if (!self.does("block")) return MNEME_OK;
  mneme_block block = MNEME_INIT(mneme_block);
  block.queue = self.kept->queue;
  return layers->emit_block(ctx, &block, error);
}

mneme_status use(const Keeping& self, mneme_ctx* ctx, const mneme_queries* in, mneme_error* error) {
  Kept& kept = *self.kept;
  mneme_tensor out = 0;
  int64_t rows = 0;
  if (self.does("parameter")) return state->parameter(ctx, kept.parameter, &out, error);
  if (self.does("slot")) return state->slot_get(ctx, kept.slot, &out, error);
  if (self.does("slot_of_queue")) return state->slot_get(ctx, self.own.queue, &out, error);
  if (self.does("queue")) return state->queue_size(ctx, kept.queue, &rows, error);
  if (self.does("kernel"))
    return kernels->call(ctx, kept.kernel, &in->projected, 1, nullptr, 0, nullptr, 0, &out, 1,
                         error);
  if (self.does("resolve")) {
    const char* const name = "add/1";
    mneme_op op = 0;
    return ops->resolve(kept.setup, &name, 1, &op, error);
  }
  const bool is_first = kept.handle == 0;
  if (is_first) {
    kept.ctx = ctx;
    kept.handle = in->projected;
  }
  mneme_shape shape = MNEME_INIT(mneme_shape);
  if (self.does("handle")) return tensors->shape(ctx, kept.handle, &shape, error);
  if (self.does("retain")) return tensors->retain(ctx, kept.handle, error);
  if (self.does("release") && !is_first) return tensors->release(ctx, kept.handle, error);
  return MNEME_OK;
}

mneme_status read(void* instance, mneme_ctx* ctx, const mneme_queries* in, mneme_read* out,
                  mneme_error* error) {
  const Keeping& self = self_of(instance);
  const mneme_status status = use(self, ctx, in, error);
  if (status != MNEME_OK) return status;
  out->merge = MNEME_MERGE_ADD;
  out->out = self.does("result") ? self.kept->handle : 0;
  if (out->out != 0) return MNEME_OK;
  return kernels->call(ctx, self.own.kernel, &in->projected, 1, nullptr, 0, nullptr, 0, &out->out,
                       1, error);
}

mneme_option act_option() {
  mneme_option option = MNEME_INIT(mneme_option);
  option.key = "act";
  option.help = "what is used again";
  option.type = MNEME_OPTION_TEXT;
  option.default_text = "none";
  return option;
}

mneme_option key_option() {
  mneme_option option = MNEME_INIT(mneme_option);
  option.key = "key";
  option.help = "instances with the same number share what is kept";
  option.type = MNEME_OPTION_INTEGER;
  return option;
}

const mneme_option kOptions[] = {act_option(), key_option()};

mneme_plugin make_table() {
  mneme_plugin table = MNEME_INIT(mneme_plugin);
  table.id = "test.keeping";
  table.version = "0.1.0";
  table.summary = "keeps what is not its own";
  table.options = kOptions;
  table.option_count = 2;
  table.option_stride = sizeof(mneme_option);
  table.init = init;
  table.create = create;
  table.destroy = destroy;
  table.context = context;
  table.read = read;
  return table;
}

const mneme_plugin kTable = make_table();

}  // namespace

MNEME_PLUGIN_NOTE("test.keeping", "0.1.0",
                  "mneme.config/1 mneme.kernel/1 mneme.layer/1 mneme.op/1 mneme.state/1 "
                  "mneme.tensor/1");

extern "C" MNEME_EXPORT mneme_status mneme_negotiate_v1(const mneme_host_offer* offer,
                                                        mneme_plugin_answer* answer) {
  return mneme_sdk_negotiate(offer, answer, &kTable);
}
