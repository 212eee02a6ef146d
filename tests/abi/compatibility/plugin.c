/* A memory that uses every group and every hook of the ABI once, in plain C and without libm. Of
 * each ABI version scripts/freeze_abi.sh keeps a binary of it, which every later host of the same
 * major version has to run with the same numbers.
 *
 *   begin    one rider, the learned row `rider` + total
 *   context  the newest `rows` rows of the past
 *   ride     full attention over riders and tokens
 *   read     at site OUT: local + gate * (noise + 1/2) * squash(x + normed - mean); auxiliary loss
 *            and probe
 *   absorb   rows go to a queue, and from there are released;
 *            mean := decay * mean + (1 - decay) * (weighted sum of the segment's rows)
 *   finish   total := total / 2 + (sum of the top outputs over the segment)
 *
 * squash(x) = x / (1 + s x^2), s = sharpness, is a kernel with a backward function of its own. */
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

static const mneme_host* the_host;
static const mneme_config_api* config;
static const mneme_kernel_api* kernels;
static const mneme_layer_api* layers;
static const mneme_log_api* logs;
static const mneme_op_api* ops;
static const mneme_parallel_api* parallel;
static const mneme_probe_api* probes;
static const mneme_random_api* draws;
static const mneme_report_api* reports;
static const mneme_state_api* state;
static const mneme_tensor_api* tensors;
static const mneme_torch_api* torch; /* NULL: a host without LibTorch */

#define ID "org.mneme_test.compatibility"
#define GROUPS                                                                  \
  "mneme.config/1 mneme.kernel/1 mneme.layer/1 mneme.log/1 mneme.op/1 "         \
  "mneme.parallel/1 mneme.probe/1 mneme.random/1 mneme.report/1 mneme.state/1 " \
  "mneme.tensor/1 mneme.torch/1?"

enum { OP_ADD, OP_CAST, OP_EXPAND, OP_MEAN, OP_MUL, OP_SUB, OP_SUM, OP_UNSQUEEZE, OP_COUNT };
static const char* const kOpNames[OP_COUNT] = {"add/1", "cast/1", "expand/1", "mean/1",
                                               "mul/1", "sub/1",  "sum/1",    "unsqueeze/1"};

enum { kMostRows = 64 };

typedef struct memory {
  int64_t rows;
  double decay;
  double sharpness;
  double shares[2]; /* of the new rows and of the old mean, beside decay */
  int32_t is_noisy;
  uint32_t dtype;
  mneme_op op[OP_COUNT];
  mneme_parameter gate, rider, start;
  mneme_slot mean, total, segments;
  mneme_queue recent;
  mneme_kernel squash;
} memory;

static mneme_status init(const mneme_host* host, mneme_get_group_fn get_group, mneme_error* error) {
  the_host = host;
  config = get_group(host, MNEME_GROUP_CONFIG);
  kernels = get_group(host, MNEME_GROUP_KERNEL);
  layers = get_group(host, MNEME_GROUP_LAYER);
  logs = get_group(host, MNEME_GROUP_LOG);
  ops = get_group(host, MNEME_GROUP_OP);
  parallel = get_group(host, MNEME_GROUP_PARALLEL);
  probes = get_group(host, MNEME_GROUP_PROBE);
  draws = get_group(host, MNEME_GROUP_RANDOM);
  reports = get_group(host, MNEME_GROUP_REPORT);
  state = get_group(host, MNEME_GROUP_STATE);
  tensors = get_group(host, MNEME_GROUP_TENSOR);
  torch = get_group(host, MNEME_GROUP_TORCH);
  if (config == NULL || kernels == NULL || layers == NULL || logs == NULL || ops == NULL ||
      parallel == NULL || probes == NULL || draws == NULL || reports == NULL || state == NULL ||
      tensors == NULL) {
    return MNEME_FAIL(error, MNEME_E_UNSUPPORTED, "this host lacks one of the groups " GROUPS);
  }
  if (torch != NULL && (torch->version[0] == '\0' || torch->library[0] != '/')) {
    return MNEME_FAIL(error, MNEME_E_INTERNAL, "mneme.torch/1 does not name the library");
  }
  return MNEME_OK;
}

/* ---- the kernel --------------------------------------------------------------------------- */

static mneme_status squash_infer(void* user, mneme_kernel_plan* plan, mneme_error* error) {
  (void)user;
  if (plan->inputs[0].dtype != MNEME_F64 && plan->inputs[0].dtype != MNEME_F32) {
    return MNEME_FAIL(error, MNEME_E_DTYPE, "squash takes f32 and f64");
  }
  if (plan->n_integers != 0 || plan->n_reals != 1) {
    return MNEME_FAIL(error, MNEME_E_INVALID_ARGUMENT, "squash takes one scalar, a real");
  }
  plan->outputs[0] = plan->inputs[0];
  plan->saved[0] = plan->inputs[0];
  plan->workspace_bytes = sizeof(double);
  return MNEME_OK;
}

typedef struct squash_job {
  const mneme_kernel_call* call;
  double sharpness;
  int is_f64;
} squash_job;

static double at(const mneme_view* view, int is_f64, int64_t i) {
  return is_f64 ? ((const double*)view->data)[i] : (double)((const float*)view->data)[i];
}

static void put(const mneme_view* view, int is_f64, int64_t i, double value) {
  if (is_f64) {
    ((double*)view->data)[i] = value;
  } else {
    ((float*)view->data)[i] = (float)value;
  }
}

static void squash_pieces(void* user, int64_t begin, int64_t end) {
  const squash_job* job = user;
  int64_t i = 0;
  for (i = begin; i < end; ++i) {
    const double x = at(&job->call->inputs[0], job->is_f64, i);
    const double square = job->sharpness * x * x;
    put(&job->call->outputs[0], job->is_f64, i, x / (1 + square));
    put(&job->call->saved[0], job->is_f64, i, (1 - square) / ((1 + square) * (1 + square)));
  }
}

static void squash_gradient_pieces(void* user, int64_t begin, int64_t end) {
  const squash_job* job = user;
  int64_t i = 0;
  for (i = begin; i < end; ++i) {
    put(&job->call->grad_inputs[0], job->is_f64, i,
        at(&job->call->saved[0], job->is_f64, i) * at(&job->call->grad_outputs[0], job->is_f64, i));
  }
}

static squash_job job_of(const mneme_kernel_call* call, const mneme_view* like) {
  const squash_job job = {call, call->reals[0], like->dtype_bits == 64};
  return job;
}

static int64_t elements(const mneme_view* view) {
  int64_t count = 1;
  int32_t i = 0;
  for (i = 0; i < view->ndim; ++i) {
    count *= view->shape[i];
  }
  return count;
}

static mneme_status squash_forward(void* user, const mneme_kernel_call* call, mneme_error* error) {
  squash_job job = job_of(call, &call->inputs[0]);
  (void)user;
  if (call->workspace == NULL || call->workspace_bytes < sizeof(double)) {
    return MNEME_FAIL(error, MNEME_E_INTERNAL, "the workspace that squash asked for is missing");
  }
  *(double*)call->workspace = job.sharpness;
  parallel->run(the_host, elements(&call->inputs[0]), 5, squash_pieces, &job);
  return MNEME_OK;
}

static mneme_status squash_backward(void* user, const mneme_kernel_call* call, mneme_error* error) {
  squash_job job = job_of(call, &call->saved[0]);
  (void)user;
  (void)error;
  if (call->grad_inputs[0].data == NULL) {
    return MNEME_OK;
  }
  if (call->grad_outputs[0].data == NULL) {
    memset(call->grad_inputs[0].data, 0,
           (size_t)elements(&call->saved[0]) * call->saved[0].dtype_bits / 8);
    return MNEME_OK;
  }
  parallel->run(the_host, elements(&call->saved[0]), 5, squash_gradient_pieces, &job);
  return MNEME_OK;
}

/* ---- an instance -------------------------------------------------------------------------- */

static mneme_status read_options(memory* self, mneme_setup* setup, mneme_error* error) {
  const char* mode = NULL;
  const int64_t* scales = NULL;
  const double* shares = NULL;
  uint64_t n_scales = 0;
  uint64_t n_shares = 0;
  TRY(config->integer(setup, "rows", &self->rows, error));
  TRY(config->real(setup, "decay", &self->decay, error));
  TRY(config->boolean(setup, "noise", &self->is_noisy, error));
  TRY(config->text(setup, "mode", &mode, error));
  TRY(config->integers(setup, "scales", &scales, &n_scales, error));
  TRY(config->reals(setup, "shares", &shares, &n_shares, error));
  if (n_scales != 2 || n_shares != 2) {
    return MNEME_FAIL(error, MNEME_E_INVALID_ARGUMENT, "scales and shares need two numbers each");
  }
  self->sharpness = (double)scales[strcmp(mode, "sharp") == 0 ? 1 : 0] / 4;
  memcpy(self->shares, shares, sizeof(self->shares));
  return MNEME_OK;
}

static mneme_status add_row(mneme_setup* setup, const char* name, double value, int64_t width,
                            uint32_t scope, mneme_parameter* out, mneme_error* error) {
  mneme_parameter_decl decl = MNEME_INIT(mneme_parameter_decl);
  decl.name = name;
  decl.scope = scope;
  decl.rank = 1;
  decl.dims[0] = width;
  decl.init = MNEME_PARAMETER_CONSTANT;
  decl.value = value;
  decl.group = "none";
  return state->add_parameter(setup, &decl, out, error);
}

static mneme_status declare(memory* self, mneme_setup* setup, int64_t width, mneme_error* error) {
  mneme_slot_decl mean = MNEME_INIT(mneme_slot_decl);
  mneme_slot_decl segments = MNEME_INIT(mneme_slot_decl);
  mneme_slot_decl total = MNEME_INIT(mneme_slot_decl);
  mneme_queue_decl recent = MNEME_INIT(mneme_queue_decl);
  mneme_kernel_decl squash = MNEME_INIT(mneme_kernel_decl);
  TRY(add_row(setup, "gate", 0.75, width, MNEME_SCOPE_LAYER, &self->gate, error));
  TRY(add_row(setup, "start", -0.5, width, MNEME_SCOPE_LAYER, &self->start, error));
  TRY(add_row(setup, "rider", 0.25, width, MNEME_SCOPE_MODEL, &self->rider, error));
  mean.name = "mean";
  mean.rank = 2;
  mean.dims[0] = MNEME_LANES;
  mean.dims[1] = width;
  mean.start = MNEME_START_PARAMETER;
  mean.start_parameter = self->start;
  TRY(state->add_slot(setup, &mean, &self->mean, error));
  total.name = "total";
  total.scope = MNEME_SCOPE_MODEL;
  total.rank = 2;
  total.dims[0] = MNEME_LANES;
  total.dims[1] = width;
  total.start = MNEME_START_CONSTANT;
  total.start_value = 0.125;
  TRY(state->add_slot(setup, &total, &self->total, error));
  segments.name = "segments";
  segments.flags = MNEME_SLOT_COUNTS;
  segments.scope = MNEME_SCOPE_MODEL;
  segments.rank = 1;
  segments.dims[0] = 1;
  TRY(state->add_slot(setup, &segments, &self->segments, error));
  recent.name = "recent";
  recent.kind = MNEME_ROWS_HIDDEN;
  recent.capacity = self->rows;
  TRY(state->add_queue(setup, &recent, &self->recent, error));
  squash.name = "squash";
  squash.flags = MNEME_KERNEL_DETERMINISTIC;
  squash.n_inputs = 1;
  squash.n_outputs = 1;
  squash.n_saved = 1;
  squash.infer = squash_infer;
  squash.forward_cpu = squash_forward;
  squash.backward_cpu = squash_backward;
  return kernels->add(setup, &squash, &self->squash, error);
}

static mneme_status create(const mneme_host* host, mneme_setup* setup,
                           const mneme_model_info* model, mneme_tier_traits* traits,
                           void** instance, mneme_error* error) {
  mneme_status status = MNEME_OK;
  memory* self = NULL;
  if (host != the_host) {
    return MNEME_FAIL(error, MNEME_E_INTERNAL, "create gets another host than init");
  }
  if (model->compute_dtype != MNEME_F64 && model->compute_dtype != MNEME_F32) {
    return MNEME_FAIL(error, MNEME_E_UNSUPPORTED, "this memory computes in f32 and f64");
  }
  self = calloc(1, sizeof(*self));
  if (self == NULL) {
    return MNEME_FAIL(error, MNEME_E_OUT_OF_MEMORY, "no memory for an instance");
  }
  self->dtype = model->compute_dtype;
  status = read_options(self, setup, error);
  if (status == MNEME_OK) {
    status = ops->resolve(setup, kOpNames, OP_COUNT, self->op, error);
  }
  if (status == MNEME_OK) {
    status = declare(self, setup, model->width, error);
  }
  if (status != MNEME_OK) {
    free(self);
    return status;
  }
  traits->flags = MNEME_TIER_RELEASES | MNEME_TIER_RIDERS;
  traits->wants = MNEME_WANT_READ_X | MNEME_WANT_READ_NORMED | MNEME_WANT_FINISH_TOP;
  traits->absorb = MNEME_ABSORB_AFTER_SEGMENT;
  traits->sites = MNEME_SITE_OUT;
  traits->context_rows = self->rows + 1;
  traits->max_segment = kMostRows;
  *instance = self;
  return MNEME_OK;
}

static void destroy(void* instance) { free(instance); }

/* ---- ops with one output ------------------------------------------------------------------ */

static mneme_status two(const memory* self, mneme_ctx* ctx, int op, mneme_tensor a, mneme_tensor b,
                        mneme_tensor* out, mneme_error* error) {
  mneme_tensor inputs[2];
  inputs[0] = a;
  inputs[1] = b;
  return ops->call(ctx, self->op[op], inputs, 2, NULL, 0, out, 1, error);
}

static mneme_status with_real(const memory* self, mneme_ctx* ctx, int op, mneme_tensor x,
                              double scalar, mneme_tensor* out, mneme_error* error) {
  const mneme_attr attr = {.name = "scalar", .type = MNEME_ATTR_REAL, .real = scalar};
  return ops->call(ctx, self->op[op], &x, 1, &attr, 1, out, 1, error);
}

static mneme_status with_integer(const memory* self, mneme_ctx* ctx, int op, mneme_tensor x,
                                 const char* name, int64_t value, mneme_tensor* out,
                                 mneme_error* error) {
  const mneme_attr attr = {.name = name, .type = MNEME_ATTR_INT, .integer = value};
  return ops->call(ctx, self->op[op], &x, 1, &attr, 1, out, 1, error);
}

static mneme_status with_integers(const memory* self, mneme_ctx* ctx, int op, mneme_tensor x,
                                  const char* name, const int64_t* values, uint32_t count,
                                  mneme_tensor* out, mneme_error* error) {
  const mneme_attr attr = {.name = name, .type = MNEME_ATTR_INTS, .count = count, .ints = values};
  return ops->call(ctx, self->op[op], &x, 1, &attr, 1, out, 1, error);
}

/* ---- tensors of values -------------------------------------------------------------------- */

typedef struct values {
  double wide[kMostRows];
  float narrow[kMostRows];
  mneme_shape shape;
  const void* data;
  uint64_t bytes;
} values;

/* `wide` as [1, count, 1] in the compute dtype. */
static void finish_values(const memory* self, values* out, int64_t count) {
  const mneme_shape empty = MNEME_INIT(mneme_shape);
  int64_t i = 0;
  out->shape = empty;
  out->shape.dtype = self->dtype;
  out->shape.rank = 3;
  out->shape.dims[0] = 1;
  out->shape.dims[1] = count;
  out->shape.dims[2] = 1;
  for (i = 0; i < count; ++i) {
    out->narrow[i] = (float)out->wide[i];
  }
  out->data = self->dtype == MNEME_F64 ? (const void*)out->wide : (const void*)out->narrow;
  out->bytes = (uint64_t)count * (self->dtype == MNEME_F64 ? sizeof(double) : sizeof(float));
}

/* Weights decay^(m-1) .. decay^0 of a segment's rows, kept by the host for each m. Borrowed. */
static mneme_status row_weights(const memory* self, mneme_ctx* ctx, int64_t rows, mneme_tensor* out,
                                mneme_error* error) {
  char key[] = "row_weights_00";
  values weights;
  double weight = 1;
  int64_t i = 0;
  key[sizeof(key) - 3] = (char)('0' + rows / 10);
  key[sizeof(key) - 2] = (char)('0' + rows % 10);
  TRY(tensors->constant_find(ctx, key, out, error));
  if (*out != 0) {
    return MNEME_OK;
  }
  for (i = rows - 1; i >= 0; --i) {
    weights.wide[i] = weight;
    weight *= self->decay;
  }
  finish_values(self, &weights, rows);
  return tensors->constant_put(ctx, key, &weights.shape, weights.data, weights.bytes, out, error);
}

/* ---- hooks -------------------------------------------------------------------------------- */

static mneme_status begin(void* instance, mneme_ctx* ctx, const mneme_segment* segment,
                          mneme_riders* out, mneme_error* error) {
  const memory* self = instance;
  mneme_tensor rider = 0;
  mneme_tensor total = 0;
  mneme_tensor sum = 0;
  mneme_tensor cast = 0;
  int64_t seen = 0;
  TRY(state->counts_get(ctx, self->segments, &seen, 1, error));
  if (seen != segment->index) {
    return MNEME_FAIL(error, MNEME_E_INTERNAL, "the count of segments is not the segment's index");
  }
  ++seen;
  TRY(state->counts_set(ctx, self->segments, &seen, 1, error));
  TRY(state->parameter(ctx, self->rider, &rider, error));
  TRY(state->slot_get(ctx, self->total, &total, error));
  TRY(two(self, ctx, OP_ADD, total, rider, &sum, error));                  /* [B,D] */
  TRY(with_integer(self, ctx, OP_UNSQUEEZE, sum, "dim", 1, &cast, error)); /* [B,1,D] */
  return with_integer(self, ctx, OP_CAST, cast, "dtype", self->dtype, &out->rows, error);
}

static mneme_status context(void* instance, mneme_ctx* ctx, const mneme_context* in,
                            mneme_error* error) {
  const memory* self = instance;
  mneme_block block = MNEME_INIT(mneme_block);
  int64_t rows = 0;
  if (in->x == 0) {
    return MNEME_FAIL(error, MNEME_E_INTERNAL, "context gets no x");
  }
  TRY(state->queue_size(ctx, self->recent, &rows, error));
  if (rows == 0) {
    return MNEME_OK;
  }
  block.queue = self->recent;
  block.position_kind = MNEME_POSITION_PLACE;
  return layers->emit_block(ctx, &block, error);
}

static mneme_status ride(void* instance, mneme_ctx* ctx, const mneme_ride* in, mneme_tensor* result,
                         mneme_error* error) {
  mneme_attention call = MNEME_INIT(mneme_attention);
  mneme_tensor lse = 0;
  (void)instance;
  call.q = in->q_riders;
  call.k = in->k;
  call.v = in->v;
  call.mask = MNEME_MASK_FULL;
  TRY(layers->scale(ctx, &call.scale, error));
  TRY(layers->attention(ctx, &call, result, &lse, error));
  return tensors->release(ctx, lse, error);
}

/* (noise + 1/2) * squashed, or squashed itself. */
static mneme_status disturb(const memory* self, mneme_ctx* ctx, int64_t lanes,
                            mneme_tensor squashed, mneme_tensor* out, mneme_error* error) {
  mneme_shape shape = MNEME_INIT(mneme_shape);
  mneme_tensor noise = 0;
  mneme_tensor factor = 0;
  if (!self->is_noisy) {
    TRY(tensors->retain(ctx, squashed, error));
    *out = squashed;
    return MNEME_OK;
  }
  shape.dtype = self->dtype;
  shape.rank = 3;
  shape.dims[0] = lanes;
  shape.dims[1] = 1;
  shape.dims[2] = 1;
  TRY(draws->uniform(ctx, "noise", &shape, &noise, error));
  TRY(with_real(self, ctx, OP_ADD, noise, 0.5, &factor, error));
  return two(self, ctx, OP_MUL, squashed, factor, out, error);
}

/* The same tensor, by way of its address where the host has one. */
static mneme_status share(mneme_ctx* ctx, mneme_tensor value, mneme_tensor* out,
                          mneme_error* error) {
  void* impl = NULL;
  if (torch == NULL) {
    TRY(tensors->retain(ctx, value, error));
    *out = value;
    return MNEME_OK;
  }
  TRY(torch->impl(ctx, value, &impl, error));
  return torch->handle(ctx, impl, out, error);
}

static mneme_status report(const memory* self, mneme_ctx* ctx, mneme_tensor difference,
                           mneme_tensor gate, mneme_error* error) {
  static const int64_t kBothDims[2] = {1, 2};
  mneme_tensor square = 0;
  mneme_tensor distance = 0;
  mneme_tensor mean = 0;
  TRY(two(self, ctx, OP_MUL, difference, difference, &square, error));
  TRY(with_integers(self, ctx, OP_MEAN, square, "dims", kBothDims, 2, &distance, error)); /* [B] */
  TRY(reports->aux(ctx, "distance", distance, 0, error));
  TRY(ops->call(ctx, self->op[OP_MEAN], &gate, 1, NULL, 0, &mean, 1, error));
  return reports->metric(ctx, "gate", mean, 0, error);
}

static mneme_status read(void* instance, mneme_ctx* ctx, const mneme_queries* in, mneme_read* out,
                         mneme_error* error) {
  const memory* self = instance;
  mneme_tensor gate = 0;
  mneme_tensor mean = 0;
  mneme_tensor row = 0;
  mneme_tensor narrow = 0;
  mneme_tensor inputs = 0;
  mneme_tensor difference = 0;
  mneme_tensor squashed = 0;
  mneme_tensor disturbed = 0;
  mneme_tensor gated = 0;
  mneme_tensor shared = 0;
  TRY(state->parameter(ctx, self->gate, &gate, error));
  TRY(state->slot_get(ctx, self->mean, &mean, error));
  TRY(with_integer(self, ctx, OP_UNSQUEEZE, mean, "dim", 1, &row, error)); /* [B,1,D] */
  TRY(with_integer(self, ctx, OP_CAST, row, "dtype", self->dtype, &narrow, error));
  TRY(two(self, ctx, OP_ADD, in->x, in->normed, &inputs, error));
  TRY(two(self, ctx, OP_SUB, inputs, narrow, &difference, error));
  TRY(kernels->call(ctx, self->squash, &difference, 1, NULL, 0, &self->sharpness, 1, &squashed, 1,
                    error));
  if (probes->wanted(ctx, "squashed")) {
    TRY(probes->publish(ctx, "squashed", squashed, error));
  }
  TRY(disturb(self, ctx, in->segment->lanes, squashed, &disturbed, error));
  TRY(two(self, ctx, OP_MUL, disturbed, gate, &gated, error));
  TRY(share(ctx, gated, &shared, error));
  TRY(with_integer(self, ctx, OP_CAST, shared, "dtype", self->dtype, &out->out, error));
  out->merge = MNEME_MERGE_ADD;
  return report(self, ctx, difference, gate, error);
}

static mneme_status keep_rows(const memory* self, mneme_ctx* ctx, const mneme_rows* rows,
                              mneme_error* error) {
  mneme_rows popped = MNEME_INIT(mneme_rows);
  int64_t kept = 0;
  TRY(state->queue_append(ctx, self->recent, rows, error));
  TRY(state->queue_size(ctx, self->recent, &kept, error));
  if (kept <= self->rows) {
    return MNEME_OK;
  }
  TRY(state->queue_pop_oldest(ctx, self->recent, kept - self->rows, &popped, error));
  return layers->release(ctx, &popped, error);
}

static mneme_status absorb(void* instance, mneme_ctx* ctx, const mneme_absorb* in,
                           mneme_error* error) {
  static const int64_t kRowDim = 1;
  const memory* self = instance;
  mneme_shape shape = MNEME_INIT(mneme_shape);
  mneme_tensor weights = 0;
  mneme_tensor weighted = 0;
  mneme_tensor sum = 0;
  mneme_tensor news = 0;
  mneme_tensor mean = 0;
  mneme_tensor old = 0;
  mneme_tensor cast = 0;
  mneme_tensor next = 0;
  TRY(state->slot_get(ctx, self->mean, &mean, error));
  TRY(tensors->shape(ctx, mean, &shape, error));
  TRY(row_weights(self, ctx, in->rows->rows, &weights, error));
  TRY(two(self, ctx, OP_MUL, in->rows->hidden, weights, &weighted, error));
  TRY(with_integers(self, ctx, OP_SUM, weighted, "dims", &kRowDim, 1, &sum, error)); /* [B,D] */
  TRY(with_real(self, ctx, OP_MUL, sum, self->shares[0] * (1 - self->decay), &news, error));
  TRY(with_integer(self, ctx, OP_CAST, news, "dtype", shape.dtype, &cast, error));
  TRY(with_real(self, ctx, OP_MUL, mean, self->shares[1] * self->decay, &old, error));
  TRY(two(self, ctx, OP_ADD, old, cast, &next, error));
  TRY(state->slot_set(ctx, self->mean, next, error));
  return keep_rows(self, ctx, in->rows, error);
}

static mneme_status finish(void* instance, mneme_ctx* ctx, const mneme_finish* in,
                           mneme_error* error) {
  static const int64_t kRowDim = 1;
  static const char kText[] = "a segment ends";
  const memory* self = instance;
  mneme_shape shape = MNEME_INIT(mneme_shape);
  values half;
  mneme_tensor factor = 0;
  mneme_tensor expanded = 0;
  mneme_tensor top = 0;
  mneme_tensor scaled = 0;
  mneme_tensor sum = 0;
  mneme_tensor total = 0;
  mneme_tensor old = 0;
  mneme_tensor next = 0;
  int64_t extents[3];
  logs->write(the_host, MNEME_LOG_INFO, ID, kText, sizeof(kText) - 1);
  TRY(tensors->shape(ctx, in->top, &shape, error));
  half.wide[0] = 0.5;
  finish_values(self, &half, 1);
  TRY(tensors->from_data(ctx, &half.shape, half.data, half.bytes, &factor, error));
  extents[0] = shape.dims[0];
  extents[1] = -1;
  extents[2] = shape.dims[2];
  TRY(with_integers(self, ctx, OP_EXPAND, factor, "shape", extents, 3, &expanded, error));
  TRY(two(self, ctx, OP_MUL, in->top, expanded, &scaled, error));
  TRY(with_integers(self, ctx, OP_SUM, scaled, "dims", &kRowDim, 1, &sum, error)); /* [B,D] */
  TRY(state->slot_get(ctx, self->total, &total, error));
  TRY(tensors->shape(ctx, total, &shape, error));
  TRY(with_integer(self, ctx, OP_CAST, sum, "dtype", shape.dtype, &top, error));
  TRY(with_real(self, ctx, OP_MUL, total, 0.5, &old, error));
  TRY(two(self, ctx, OP_ADD, old, top, &next, error));
  return state->slot_set(ctx, self->total, next, error);
}

/* ---- the table ---------------------------------------------------------------------------- */

#define OPTION(name, kind, words) \
  .struct_size = (uint32_t)sizeof(mneme_option), .key = (name), .type = (kind), .help = (words)

static const char* const kModes[] = {"flat", "sharp"};
static const int64_t kScales[] = {1, 2};
static const double kShares[] = {0.5, 0.875};
static const mneme_option kOptions[] = {
    {OPTION("rows", MNEME_OPTION_INTEGER, "rows that are kept"), .flags = MNEME_OPTION_BOUNDED,
     .default_integer = 4, .min_integer = 1, .max_integer = kMostRows},
    {OPTION("decay", MNEME_OPTION_REAL, "of the mean"),
     .flags = MNEME_OPTION_BOUNDED | MNEME_OPTION_TRAINED, .default_real = 0.75, .min_real = 0,
     .max_real = 1},
    {OPTION("noise", MNEME_OPTION_BOOLEAN, "draws a factor for each lane"), .default_integer = 1},
    {OPTION("mode", MNEME_OPTION_CHOICE, "of squash"), .default_text = "sharp", .choices = kModes,
     .choice_count = 2},
    {OPTION("scales", MNEME_OPTION_INTEGERS, "sharpness times 4, flat and sharp"),
     .default_integers = kScales, .default_count = 2},
    {OPTION("shares", MNEME_OPTION_REALS, "of new rows and of the old mean"),
     .default_reals = kShares, .default_count = 2},
};

static const mneme_plugin kPlugin = {
    .struct_size = (uint32_t)sizeof(mneme_plugin),
    .id = ID,
    .version = "1.0.0",
    .summary = "uses every group and every hook of the ABI once",
    .options = kOptions,
    .option_count = (uint32_t)(sizeof(kOptions) / sizeof(kOptions[0])),
    .option_stride = (uint32_t)sizeof(mneme_option),
    .init = init,
    .create = create,
    .destroy = destroy,
    .begin = begin,
    .absorb = absorb,
    .context = context,
    .ride = ride,
    .read = read,
    .finish = finish,
    .losses = "distance",
};

MNEME_PLUGIN_ENTRY(kPlugin, ID, "1.0.0", GROUPS);
