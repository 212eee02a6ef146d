/* decayed_mean_c: a decayed mean of past rows, read through a learned gate. The whole C ABI in one
 * small memory.
 *
 *   absorb   mean := mean + (1 - decay) * seen * (average of the segment's valid rows - mean),
 *            seen = 1 when a lane has valid rows, else 0
 *   read     at site OUT: local + sigmoid(gate) * mean
 *
 * gate [D] is learned; mean [B,D] is a slot of the host. No backward code: the ops run under the
 * host's autograd. */
#include <stdlib.h>

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
static const mneme_op_api* ops;
static const mneme_state_api* state;
static const mneme_config_api* config;

enum {
  OP_ADD,
  OP_SUB,
  OP_MUL,
  OP_DIV,
  OP_SUM,
  OP_MINIMUM,
  OP_MAXIMUM,
  OP_SIGMOID,
  OP_UNSQUEEZE,
  OP_CAST,
  OP_COUNT
};
static const char* const kOpNames[OP_COUNT] = {"add/1",       "sub/1",     "mul/1",     "div/1",
                                               "sum/1",       "minimum/1", "maximum/1", "sigmoid/1",
                                               "unsqueeze/1", "cast/1"};

/* What an instance is: configuration and ids, nothing that a hook changes. */
typedef struct decayed_mean {
  double decay;
  mneme_op op[OP_COUNT];
  mneme_parameter gate;
  mneme_slot mean;
} decayed_mean;

static mneme_status init(const mneme_host* host, mneme_get_group_fn get_group, mneme_error* error) {
  tensors = get_group(host, MNEME_GROUP_TENSOR);
  ops = get_group(host, MNEME_GROUP_OP);
  state = get_group(host, MNEME_GROUP_STATE);
  config = get_group(host, MNEME_GROUP_CONFIG);
  if (tensors == NULL || ops == NULL || state == NULL || config == NULL) {
    return MNEME_FAIL(error, MNEME_E_UNSUPPORTED,
                      "this host lacks one of the groups tensor, op, state and config");
  }
  return MNEME_OK;
}

static mneme_status declare(decayed_mean* self, mneme_setup* setup, const mneme_model_info* model,
                            mneme_error* error) {
  mneme_parameter_decl gate = MNEME_INIT(mneme_parameter_decl);
  mneme_slot_decl mean = MNEME_INIT(mneme_slot_decl);
  gate.name = "gate";
  gate.rank = 1;
  gate.dims[0] = model->width;
  gate.init = MNEME_PARAMETER_ZEROS;
  mean.name = "mean";
  mean.rank = 2;
  mean.dims[0] = MNEME_LANES;
  mean.dims[1] = model->width;
  mean.gradient = MNEME_GRADIENT_STOP;
  TRY(config->real(setup, "decay", &self->decay, error));
  TRY(ops->resolve(setup, kOpNames, OP_COUNT, self->op, error));
  TRY(state->add_parameter(setup, &gate, &self->gate, error));
  return state->add_slot(setup, &mean, &self->mean, error);
}

static mneme_status create(const mneme_host* host, mneme_setup* setup,
                           const mneme_model_info* model, mneme_tier_traits* traits,
                           void** instance, mneme_error* error) {
  mneme_status status;
  decayed_mean* self = calloc(1, sizeof(*self));
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

/* ---- ops with one output ------------------------------------------------------------------ */

static mneme_status binary(const decayed_mean* self, mneme_ctx* ctx, int op, mneme_tensor a,
                           mneme_tensor b, mneme_tensor* out, mneme_error* error) {
  const mneme_tensor inputs[2] = {a, b};
  return ops->call(ctx, self->op[op], inputs, 2, NULL, 0, out, 1, error);
}

static mneme_status with_scalar(const decayed_mean* self, mneme_ctx* ctx, int op, mneme_tensor a,
                                double scalar, mneme_tensor* out, mneme_error* error) {
  const mneme_tensor inputs[2] = {a, 0};
  const mneme_attr attr = {.name = "scalar", .type = MNEME_ATTR_REAL, .real = scalar};
  return ops->call(ctx, self->op[op], inputs, 2, &attr, 1, out, 1, error);
}

static mneme_status with_integer(const decayed_mean* self, mneme_ctx* ctx, int op, mneme_tensor x,
                                 const char* name, int64_t value, mneme_tensor* out,
                                 mneme_error* error) {
  const mneme_attr attr = {.name = name, .type = MNEME_ATTR_INT, .integer = value};
  return ops->call(ctx, self->op[op], &x, 1, &attr, 1, out, 1, error);
}

/* Sum over the rows: [B,m,...] -> [B,...]. */
static mneme_status sum_rows(const decayed_mean* self, mneme_ctx* ctx, mneme_tensor x,
                             mneme_tensor* out, mneme_error* error) {
  const int64_t dims[1] = {1};
  const mneme_attr attr = {.name = "dims", .type = MNEME_ATTR_INTS, .count = 1, .ints = dims};
  return ops->call(ctx, self->op[OP_SUM], &x, 1, &attr, 1, out, 1, error);
}

/* ---- hooks -------------------------------------------------------------------------------- */

/* Average of the valid rows [B,D], and `seen` [B,1]: 1 where a lane has any. Without a mask every
 * row counts. */
static mneme_status average(const decayed_mean* self, mneme_ctx* ctx, const mneme_rows* rows,
                            int64_t dtype, mneme_tensor* mean, mneme_tensor* seen,
                            mneme_error* error) {
  mneme_tensor hidden, valid, column, kept, total, count, at_least_one;
  TRY(with_integer(self, ctx, OP_CAST, rows->hidden, "dtype", dtype, &hidden, error));
  if (rows->valid == 0) {
    *seen = 0;
    TRY(sum_rows(self, ctx, hidden, &total, error));
    return with_scalar(self, ctx, OP_MUL, total, 1.0 / (double)rows->rows, mean, error);
  }
  TRY(with_integer(self, ctx, OP_CAST, rows->valid, "dtype", dtype, &valid, error));
  TRY(with_integer(self, ctx, OP_UNSQUEEZE, valid, "dim", 2, &column, error));
  TRY(binary(self, ctx, OP_MUL, hidden, column, &kept, error));
  TRY(sum_rows(self, ctx, kept, &total, error));
  TRY(sum_rows(self, ctx, column, &count, error)); /* [B,1] */
  TRY(with_scalar(self, ctx, OP_MAXIMUM, count, 1.0, &at_least_one, error));
  TRY(with_scalar(self, ctx, OP_MINIMUM, count, 1.0, seen, error));
  return binary(self, ctx, OP_DIV, total, at_least_one, mean, error);
}

static mneme_status absorb(void* instance, mneme_ctx* ctx, const mneme_absorb* in,
                           mneme_error* error) {
  const decayed_mean* self = instance;
  mneme_shape shape = MNEME_INIT(mneme_shape);
  mneme_tensor old, mean, seen, difference, step, next;
  TRY(state->slot_get(ctx, self->mean, &old, error));
  TRY(tensors->shape(
      ctx, old, &shape,
      error)); /* rows come in the compute dtype, the slot holds f32 (f64 in f64 runs) */
  TRY(average(self, ctx, in->rows, (int64_t)shape.dtype, &mean, &seen, error));
  TRY(binary(self, ctx, OP_SUB, mean, old, &difference, error));
  TRY(with_scalar(self, ctx, OP_MUL, difference, 1.0 - self->decay, &step, error));
  if (seen != 0) {
    TRY(binary(self, ctx, OP_MUL, step, seen, &step, error));
  }
  TRY(binary(self, ctx, OP_ADD, old, step, &next, error));
  return state->slot_set(ctx, self->mean, next, error);
}

static mneme_status read(void* instance, mneme_ctx* ctx, const mneme_queries* in, mneme_read* out,
                         mneme_error* error) {
  const decayed_mean* self = instance;
  mneme_tensor gate, opened, mean, gated, row;
  TRY(state->parameter(ctx, self->gate, &gate, error));
  TRY(state->slot_get(ctx, self->mean, &mean, error));
  TRY(ops->call(ctx, self->op[OP_SIGMOID], &gate, 1, NULL, 0, &opened, 1, error));
  TRY(binary(self, ctx, OP_MUL, opened, mean, &gated, error));
  TRY(with_integer(self, ctx, OP_UNSQUEEZE, gated, "dim", 1, &row,
                   error)); /* [B,1,D], the same for every token */
  TRY(with_integer(self, ctx, OP_CAST, row, "dtype", (int64_t)in->segment->compute_dtype, &out->out,
                   error));
  out->merge = MNEME_MERGE_ADD;
  return MNEME_OK;
}

static const mneme_option kOptions[] = {{
    .struct_size = (uint32_t)sizeof(mneme_option),
    .flags = MNEME_OPTION_BOUNDED,
    .key = "decay",
    .help = "weight of the past when a segment is absorbed",
    .type = MNEME_OPTION_REAL,
    .default_real = 0.9,
    .min_real = 0.0,
    .max_real = 1.0,
}};

static const mneme_plugin kPlugin = {
    .struct_size = (uint32_t)sizeof(mneme_plugin),
    .id = "org.example.decayed_mean_c",
    .version = "0.1.0",
    .summary = "a decayed mean of past rows, read through a learned gate; an example in plain C",
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

MNEME_PLUGIN_ENTRY(kPlugin, "org.example.decayed_mean_c", "0.1.0",
                   "mneme.tensor/1 mneme.op/1 mneme.state/1 mneme.config/1");
