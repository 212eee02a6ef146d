/* Puts option `value` into the field of the ABI that option `field` names ("mneme_rows.kind"), and
 * is right in everything else. Functions' own arguments are named like fields: "norm.flags". */
#include <stdlib.h>
#include <string.h>

#include "mneme/sdk.h"

#define TRY(call)                     \
  do {                                \
    const mneme_status try_ = (call); \
    if (try_ != MNEME_OK) {           \
      return try_;                    \
    }                                 \
  } while (0)

static const mneme_host* host;
static const mneme_config_api* config;
static const mneme_kernel_api* kernels;
static const mneme_layer_api* layers;
static const mneme_log_api* logs;
static const mneme_state_api* state;
static const mneme_tensor_api* tensors;

typedef struct fields {
  char field[64];
  uint64_t value;
  mneme_queue queue;
  mneme_kernel kernel;
} fields;

/* Whether the field that is set is one of this struct or function. */
static int concerns(const fields* self, const char* prefix) {
  return strncmp(self->field, prefix, strlen(prefix)) == 0 && self->field[strlen(prefix)] == '.';
}

#define PUT(self, name, place)              \
  do {                                      \
    if (strcmp((self)->field, name) == 0) { \
      (place) = (uint32_t)(self)->value;    \
    }                                       \
  } while (0)
#define PUT64(self, name, place)            \
  do {                                      \
    if (strcmp((self)->field, name) == 0) { \
      (place) = (self)->value;              \
    }                                       \
  } while (0)
#define PUT_SIGNED(self, name, place)       \
  do {                                      \
    if (strcmp((self)->field, name) == 0) { \
      (place) = (int64_t)(self)->value;     \
    }                                       \
  } while (0)

static mneme_status init(const mneme_host* given, mneme_get_group_fn get_group,
                         mneme_error* error) {
  host = given;
  config = get_group(given, MNEME_GROUP_CONFIG);
  kernels = get_group(given, MNEME_GROUP_KERNEL);
  layers = get_group(given, MNEME_GROUP_LAYER);
  logs = get_group(given, MNEME_GROUP_LOG);
  state = get_group(given, MNEME_GROUP_STATE);
  tensors = get_group(given, MNEME_GROUP_TENSOR);
  if (get_group(given, MNEME_GROUP_OP) != NULL || get_group(given, MNEME_GROUP_RANDOM) != NULL) {
    return MNEME_FAIL(error, MNEME_E_INTERNAL, "the host gives groups that the note does not list");
  }
  return MNEME_OK;
}

static mneme_status infer(void* user, mneme_kernel_plan* plan, mneme_error* error) {
  const fields* self = user;
  (void)error;
  plan->outputs[0] = plan->inputs[0];
  plan->saved[0] = plan->inputs[0];
  PUT(self, "mneme_kernel_plan.flags", plan->flags);
  PUT(self, "mneme_shape.flags", plan->outputs[0].flags);
  PUT(self, "mneme_shape.dtype", plan->saved[0].dtype);
  return MNEME_OK;
}

static mneme_status forward(void* user, const mneme_kernel_call* call, mneme_error* error) {
  int64_t n = 1;
  int32_t d = 0;
  (void)user;
  (void)error;
  for (d = 0; d < call->outputs[0].ndim; ++d) n *= call->outputs[0].shape[d];
  memset(call->outputs[0].data, 0, (size_t)(n * call->outputs[0].dtype_bits / 8));
  return MNEME_OK;
}

static mneme_status declare(fields* self, mneme_setup* setup, mneme_error* error) {
  mneme_parameter_decl parameter = MNEME_INIT(mneme_parameter_decl);
  mneme_slot_decl slot = MNEME_INIT(mneme_slot_decl);
  mneme_queue_decl queue = MNEME_INIT(mneme_queue_decl);
  mneme_kernel_decl kernel = MNEME_INIT(mneme_kernel_decl);
  mneme_parameter parameter_id = 0;
  mneme_slot slot_id = 0;
  parameter.name = "parameter";
  parameter.rank = 1;
  parameter.dims[0] = 2;
  PUT(self, "mneme_parameter_decl.flags", parameter.flags);
  PUT(self, "mneme_parameter_decl.scope", parameter.scope);
  PUT(self, "mneme_parameter_decl.init", parameter.init);
  TRY(state->add_parameter(setup, &parameter, &parameter_id, error));
  slot.name = "slot";
  slot.rank = 1;
  slot.dims[0] = MNEME_LANES;
  PUT(self, "mneme_slot_decl.flags", slot.flags);
  PUT(self, "mneme_slot_decl.scope", slot.scope);
  PUT(self, "mneme_slot_decl.dtype", slot.dtype);
  PUT(self, "mneme_slot_decl.gradient", slot.gradient);
  PUT(self, "mneme_slot_decl.lifetime", slot.lifetime);
  PUT(self, "mneme_slot_decl.start", slot.start);
  TRY(state->add_slot(setup, &slot, &slot_id, error));
  queue.name = "queue";
  PUT(self, "mneme_queue_decl.flags", queue.flags);
  PUT(self, "mneme_queue_decl.scope", queue.scope);
  PUT(self, "mneme_queue_decl.kind", queue.kind);
  PUT(self, "mneme_queue_decl.attributes", queue.attributes);
  TRY(state->add_queue(setup, &queue, &self->queue, error));
  kernel.name = "kernel";
  kernel.user = self;
  kernel.n_inputs = 1;
  kernel.n_outputs = 1;
  kernel.n_saved = 1;
  kernel.infer = infer;
  kernel.forward_cpu = forward;
  PUT(self, "mneme_kernel_decl.flags", kernel.flags);
  PUT64(self, "mneme_kernel_decl.keep_inputs", kernel.keep_inputs);
  PUT64(self, "mneme_kernel_decl.keep_outputs", kernel.keep_outputs);
  PUT64(self, "mneme_kernel_decl.constant_inputs", kernel.constant_inputs);
  PUT64(self, "mneme_kernel_decl.optional_inputs", kernel.optional_inputs);
  PUT64(self, "mneme_kernel_decl.strided_inputs", kernel.strided_inputs);
  return kernels->add(setup, &kernel, &self->kernel, error);
}

static mneme_status create(const mneme_host* given, mneme_setup* setup,
                           const mneme_model_info* model, mneme_tier_traits* traits,
                           void** instance, mneme_error* error) {
  const char* field = NULL;
  int64_t value = 0;
  mneme_status status = MNEME_OK;
  fields* self = calloc(1, sizeof(*self));
  (void)given;
  (void)model;
  if (self == NULL) {
    return MNEME_FAIL(error, MNEME_E_OUT_OF_MEMORY, "no memory for an instance");
  }
  *instance = self;
  status = config->text(setup, "field", &field, error);
  if (status == MNEME_OK) {
    strncpy(self->field, field, sizeof(self->field) - 1);
    status = config->integer(setup, "value", &value, error);
    self->value = (uint64_t)value;
  }
  if (status == MNEME_OK && concerns(self, "mneme_error")) {
    error->flags = (uint32_t)self->value;
    status = MNEME_FAIL(error, MNEME_E_NUMERIC, "a failure on purpose");
  }
  if (status == MNEME_OK) {
    status = declare(self, setup, error);
  }
  if (status != MNEME_OK) {
    free(self);
    return status;
  }
  if (concerns(self, "log") && logs != NULL) {
    logs->write(host, (uint32_t)self->value, "test.fields", "a line", 6);
  }
  traits->absorb = MNEME_ABSORB_AFTER_SEGMENT;
  traits->sites = MNEME_SITE_OUT;
  PUT(self, "mneme_tier_traits.flags", traits->flags);
  PUT64(self, "mneme_tier_traits.wants", traits->wants);
  PUT(self, "mneme_tier_traits.absorb", traits->absorb);
  PUT(self, "mneme_tier_traits.sites", traits->sites);
  PUT_SIGNED(self, "mneme_tier_traits.key_width", traits->key_width);
  PUT_SIGNED(self, "mneme_tier_traits.value_width", traits->value_width);
  return MNEME_OK;
}

static void destroy(void* instance) { free(instance); }

static mneme_status begin(void* instance, mneme_ctx* ctx, const mneme_segment* segment,
                          mneme_riders* out, mneme_error* error) {
  const fields* self = instance;
  (void)ctx;
  (void)segment;
  (void)error;
  PUT(self, "mneme_riders.flags", out->flags);
  return MNEME_OK;
}

static mneme_status upload(const fields* self, mneme_ctx* ctx, mneme_error* error) {
  const float values[2] = {0.0F, 0.0F};
  mneme_shape shape = MNEME_INIT(mneme_shape);
  mneme_tensor out = 0;
  shape.dtype = MNEME_F32;
  shape.rank = 1;
  shape.dims[0] = 2;
  PUT(self, "mneme_shape.flags", shape.flags);
  PUT(self, "mneme_shape.dtype", shape.dtype);
  return tensors->from_data(ctx, &shape, values, sizeof(values), &out, error);
}

static mneme_status attend(const fields* self, mneme_ctx* ctx, mneme_tensor q, mneme_error* error) {
  mneme_attention call = MNEME_INIT(mneme_attention);
  mneme_tensor z = 0;
  mneme_tensor lse = 0;
  call.q = q;
  call.k = q;
  call.v = q;
  PUT(self, "mneme_attention.flags", call.flags);
  PUT(self, "mneme_attention.mask", call.mask);
  return layers->attention(ctx, &call, &z, &lse, error);
}

static mneme_status absorb(void* instance, mneme_ctx* ctx, const mneme_absorb* in,
                           mneme_error* error) {
  const fields* self = instance;
  const mneme_tensor hidden = in->rows->hidden;
  const uint32_t flags = (uint32_t)self->value;
  mneme_tensor out = 0;
  mneme_rows rows = *in->rows;
  if (concerns(self, "norm")) return layers->norm(ctx, hidden, flags, &out, error);
  if (concerns(self, "project"))
    return layers->project(ctx, MNEME_PROJECT_Q, hidden, flags, &out, error);
  if (concerns(self, "weight")) return layers->weight(ctx, MNEME_WEIGHT_Q, flags, &out, error);
  if (concerns(self, "positions")) return layers->positions(ctx, 1, 2, flags, &out, error);
  if (concerns(self, "mneme_attention")) {
    TRY(layers->project(ctx, MNEME_PROJECT_Q, hidden, 0, &out, error));
    return attend(self, ctx, out, error);
  }
  if (concerns(self, "mneme_shape")) TRY(upload(self, ctx, error));
  if (concerns(self, "mneme_shape") || concerns(self, "mneme_kernel_plan"))
    return kernels->call(ctx, self->kernel, &hidden, 1, NULL, 0, NULL, 0, &out, 1, error);
  if (!concerns(self, "mneme_rows")) return MNEME_OK;
  PUT(self, "mneme_rows.flags", rows.flags);
  PUT(self, "mneme_rows.kind", rows.kind);
  return state->queue_append(ctx, self->queue, &rows, error);
}

static mneme_status context(void* instance, mneme_ctx* ctx, const mneme_context* in,
                            mneme_error* error) {
  const fields* self = instance;
  mneme_block block = MNEME_INIT(mneme_block);
  (void)in;
  block.queue = self->queue;
  PUT(self, "mneme_block.flags", block.flags);
  PUT(self, "mneme_block.position_kind", block.position_kind);
  return concerns(self, "mneme_block") ? layers->emit_block(ctx, &block, error) : MNEME_OK;
}

static mneme_status ride(void* instance, mneme_ctx* ctx, const mneme_ride* in, mneme_tensor* result,
                         mneme_error* error) {
  (void)instance;
  (void)ctx;
  (void)in;
  (void)result;
  return MNEME_FAIL(error, MNEME_E_STATE, "no riders were given");
}

static mneme_status read(void* instance, mneme_ctx* ctx, const mneme_queries* in, mneme_read* out,
                         mneme_error* error) {
  const fields* self = instance;
  (void)ctx;
  (void)in;
  (void)error;
  PUT(self, "mneme_read.flags", out->flags);
  PUT(self, "mneme_read.merge", out->merge);
  return MNEME_OK;
}

static const mneme_option kOptions[] = {
    {.struct_size = (uint32_t)sizeof(mneme_option),
     .key = "field",
     .help = "what is set",
     .type = MNEME_OPTION_TEXT,
     .default_text = ""},
    {.struct_size = (uint32_t)sizeof(mneme_option),
     .key = "value",
     .help = "what it is set to",
     .type = MNEME_OPTION_INTEGER},
};

static const mneme_plugin kPlugin = {
    .struct_size = (uint32_t)sizeof(mneme_plugin),
    .id = "test.fields",
    .version = "0.1.0",
    .summary = "sets one field of the ABI",
    .options = kOptions,
    .option_count = 2,
    .option_stride = (uint32_t)sizeof(mneme_option),
    .init = init,
    .create = create,
    .destroy = destroy,
    .begin = begin,
    .absorb = absorb,
    .context = context,
    .ride = ride,
    .read = read,
};

MNEME_PLUGIN_ENTRY(
    kPlugin, "test.fields", "0.1.0",
    "mneme.tensor/1 mneme.state/1 mneme.layer/1 mneme.config/1 mneme.kernel/1 mneme.log/1?");
