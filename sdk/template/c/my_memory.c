/* my_memory: the last row of the past, added through a learned gate. Replace it with a memory of
 * your own.
 *
 *   absorb   last := the segment's last row [B,D] of the layer's inputs
 *   read     at site OUT: local + scale * tanh(gate) * last
 *
 * gate [D] is learned; last [B,D] is a slot of the host. No backward code: the ops run under the
 * host's autograd. */
#include <stdlib.h>

#include "mneme/c/ops.h"
#include "mneme/sdk.h"

/* Every host call returns a status and fills `error`; the first failure ends the hook with the
 * host's own text. */
#define TRY(call)                     \
  do {                                \
    const mneme_status try_ = (call); \
    if (try_ != MNEME_OK) {           \
      return try_;                    \
    }                                 \
  } while (0)

/* The host's function groups, looked up once in init. */
static const mneme_tensor_api* tensors;
static const mneme_op_api* op_api;
static const mneme_state_api* state;
static const mneme_config_api* config;

/* `mneme abi ops` prints all ops; mneme/c/ops.h has a function for each. */
static const mneme_op_id kOps[] = {MNEME_OP_SLICE, MNEME_OP_SQUEEZE, MNEME_OP_UNSQUEEZE,
                                   MNEME_OP_CAST,  MNEME_OP_TANH,    MNEME_OP_MUL,
                                   MNEME_OP_WHERE};

/* What an instance is: configuration and ids, nothing that a hook changes. */
typedef struct my_memory {
  double scale;
  mneme_ops ops;
  mneme_parameter gate;
  mneme_slot last;
} my_memory;

static mneme_status init(const mneme_host* host, mneme_get_group_fn get_group, mneme_error* error) {
  tensors = get_group(host, MNEME_GROUP_TENSOR);
  op_api = get_group(host, MNEME_GROUP_OP);
  state = get_group(host, MNEME_GROUP_STATE);
  config = get_group(host, MNEME_GROUP_CONFIG);
  if (tensors == NULL || op_api == NULL || state == NULL || config == NULL) {
    return MNEME_FAIL(error, MNEME_E_UNSUPPORTED,
                      "this host lacks one of the groups tensor, op, state and config");
  }
  return MNEME_OK;
}

static mneme_status declare(my_memory* self, mneme_setup* setup, const mneme_model_info* model,
                            mneme_error* error) {
  mneme_parameter_decl gate = MNEME_INIT(mneme_parameter_decl);
  mneme_slot_decl last = MNEME_INIT(mneme_slot_decl);
  gate.name = "gate";
  gate.rank = 1;
  gate.dims[0] = model->width;
  gate.init = MNEME_PARAMETER_ZEROS;
  last.name = "last";
  last.rank = 2;
  last.dims[0] = MNEME_LANES;
  last.dims[1] = model->width;
  last.gradient = MNEME_GRADIENT_STOP;
  TRY(config->real(setup, "scale", &self->scale, error));
  TRY(mneme_ops_resolve(&self->ops, op_api, setup, kOps, sizeof(kOps) / sizeof(kOps[0]), error));
  TRY(state->add_parameter(setup, &gate, &self->gate, error));
  return state->add_slot(setup, &last, &self->last, error);
}

static mneme_status create(const mneme_host* host, mneme_setup* setup,
                           const mneme_model_info* model, mneme_tier_traits* traits,
                           void** instance, mneme_error* error) {
  mneme_status status;
  my_memory* self = calloc(1, sizeof(*self));
  (void)host;
  if (self == NULL) {
    return MNEME_FAIL(error, MNEME_E_OUT_OF_MEMORY, "no memory for an instance");
  }
  status = declare(self, setup, model, error);
  if (status != MNEME_OK) {
    free(self);
    return status;
  }
  traits->absorb = MNEME_ABSORB_AFTER_SEGMENT;
  traits->sites = MNEME_SITE_OUT;
  *instance = self;
  return MNEME_OK;
}

static void destroy(void* instance) { free(instance); }

/* ---- hooks -------------------------------------------------------------------------------- */

/* After the segment: rows->hidden [B,m,D] are the layer's inputs. Slots hold f32 (f64 in f64 runs)
 * while rows come in the layer's compute dtype, so the cast is explicit. */
static mneme_status absorb(void* instance, mneme_ctx* ctx, const mneme_absorb* in,
                           mneme_error* error) {
  const my_memory* self = instance;
  const mneme_ops* ops = &self->ops;
  mneme_shape shape = MNEME_INIT(mneme_shape);
  mneme_tensor old, row, flat, next, is_there;
  TRY(state->slot_get(ctx, self->last, &old, error));
  TRY(tensors->shape(ctx, old, &shape, error));
  TRY(mneme_op_slice(ops, ctx, in->rows->hidden, 1, -1, MNEME_OP_ABSENT, 1, &row,
                     error));                            /* [B,1,D] */
  TRY(mneme_op_squeeze(ops, ctx, row, 1, &flat, error)); /* [B,D] */
  TRY(mneme_op_cast(ops, ctx, flat, shape.dtype, &next, error));
  /* A lane may lack the row, as behind a cache, or where it has ended: valid [B,m] says so. */
  if (in->rows->valid != 0) {
    TRY(mneme_op_slice(ops, ctx, in->rows->valid, 1, -1, MNEME_OP_ABSENT, 1, &is_there, error));
    TRY(mneme_op_where(ops, ctx, is_there, next, old, &next, error));
  }
  return state->slot_set(ctx, self->last, next, error);
}

/* While reading: [B,1,D] is added to the attention's projected result [B,T,D]. */
static mneme_status read(void* instance, mneme_ctx* ctx, const mneme_queries* in, mneme_read* out,
                         mneme_error* error) {
  const my_memory* self = instance;
  const mneme_ops* ops = &self->ops;
  mneme_tensor gate, opened, last, gated, scaled, row;
  TRY(state->parameter(ctx, self->gate, &gate, error));
  TRY(state->slot_get(ctx, self->last, &last, error));
  TRY(mneme_op_tanh(ops, ctx, gate, &opened, error));
  TRY(mneme_op_mul(ops, ctx, opened, last, &gated, error));
  TRY(mneme_op_mul_scalar(ops, ctx, gated, self->scale, &scaled, error));
  TRY(mneme_op_unsqueeze(ops, ctx, scaled, 1, &row, error));
  TRY(mneme_op_cast(ops, ctx, row, in->segment->compute_dtype, &out->out, error));
  out->merge = MNEME_MERGE_ADD;
  return MNEME_OK;
}

static const mneme_option kOptions[] = {{
    .struct_size = (uint32_t)sizeof(mneme_option),
    .flags = MNEME_OPTION_BOUNDED | MNEME_OPTION_AT_EVALUATION,
    .key = "scale",
    .help = "factor of what is read",
    .type = MNEME_OPTION_REAL,
    .default_real = 1.0,
    .min_real = 0.0,
    .max_real = 10.0,
}};

static const mneme_plugin kPlugin = {
    .struct_size = (uint32_t)sizeof(mneme_plugin),
    .id = "org.example.my_memory",
    .version = "0.1.0",
    .summary = "keeps the last row of the past and adds it through a gate",
    .options = kOptions,
    .option_count = 1,
    .option_stride = (uint32_t)sizeof(mneme_option),
    .init = init,
    .create = create,
    .destroy = destroy,
    .absorb = absorb,
    .read = read,
    .losses = "",
};

MNEME_PLUGIN_ENTRY(kPlugin, "org.example.my_memory", "0.1.0",
                   "mneme.tensor/1 mneme.op/1 mneme.state/1 mneme.config/1");
