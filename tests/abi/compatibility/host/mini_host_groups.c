/* The function groups of the mini host, but for mneme.kernel (mini_host_kernel.c) and mneme.state
 * (mini_host_state.c). */
#include <math.h>
#include <stdio.h>

#include "mini_host.h"
#include "scenario.h"

mini_host the_mini_host;

/* ---- handles ------------------------------------------------------------------------------ */

static char host_object, setup_object, ctx_object;

const mneme_host* host_handle(void) { return (const mneme_host*)(const void*)&host_object; }
mneme_setup* setup_handle(void) { return (mneme_setup*)(void*)&setup_object; }
mneme_ctx* ctx_handle(void) { return (mneme_ctx*)(void*)&ctx_object; }

mneme_status refuse(mneme_error* error, mneme_status code, const char* message) {
  if (error != NULL) {
    error->code = code;
    snprintf(error->message, sizeof(error->message), "%s", message);
  }
  return code;
}

/* ---- config ------------------------------------------------------------------------------- */

static int option_of(const char* key, uint32_t type, mneme_option* out) {
  const mneme_plugin* plugin = the_mini_host.plugin;
  uint32_t i = 0;
  for (i = 0; i < plugin->option_count; ++i) {
    const mneme_option* at = (const mneme_option*)(const void*)((const char*)plugin->options +
                                                                (size_t)i * plugin->option_stride);
    if (strcmp(at->key, key) == 0) {
      TAKE(mneme_option, *out, at);
      return out->type == type;
    }
  }
  return 0;
}

#define OPTION(kind)   \
  mneme_option option; \
  NEEDS_SETUP(setup);  \
  NEEDS(option_of(key, (kind), &option), "no option of this key and type")

static mneme_status config_integer(mneme_setup* setup, const char* key, int64_t* out,
                                   mneme_error* error) {
  OPTION(MNEME_OPTION_INTEGER);
  *out = option.default_integer;
  return MNEME_OK;
}

static mneme_status config_real(mneme_setup* setup, const char* key, double* out,
                                mneme_error* error) {
  OPTION(MNEME_OPTION_REAL);
  *out = option.default_real;
  return MNEME_OK;
}

static mneme_status config_boolean(mneme_setup* setup, const char* key, int32_t* out,
                                   mneme_error* error) {
  OPTION(MNEME_OPTION_BOOLEAN);
  *out = option.default_integer != 0;
  return MNEME_OK;
}

static mneme_status config_text(mneme_setup* setup, const char* key, const char** out,
                                mneme_error* error) {
  mneme_option option;
  NEEDS_SETUP(setup);
  NEEDS(option_of(key, MNEME_OPTION_TEXT, &option) || option_of(key, MNEME_OPTION_CHOICE, &option),
        "no option of this key and type");
  *out = option.default_text;
  return MNEME_OK;
}

static mneme_status config_integers(mneme_setup* setup, const char* key, const int64_t** out,
                                    uint64_t* count, mneme_error* error) {
  OPTION(MNEME_OPTION_INTEGERS);
  *count = option.default_count;
  *out = option.default_integers;
  return MNEME_OK;
}

static mneme_status config_reals(mneme_setup* setup, const char* key, const double** out,
                                 uint64_t* count, mneme_error* error) {
  OPTION(MNEME_OPTION_REALS);
  *count = option.default_count;
  *out = option.default_reals;
  return MNEME_OK;
}

static const mneme_config_api kConfig = {
    .struct_size = (uint32_t)sizeof(mneme_config_api),
    .integer = config_integer,
    .real = config_real,
    .boolean = config_boolean,
    .text = config_text,
    .integers = config_integers,
    .reals = config_reals,
};

/* ---- op ----------------------------------------------------------------------------------- */

static mneme_status op_resolve(mneme_setup* setup, const char* const* names, uint32_t count,
                               mneme_op* out, mneme_error* error) {
  uint32_t i = 0;
  NEEDS_SETUP(setup);
  for (i = 0; i < count; ++i) {
    out[i] = op_find(names[i]);
    if (out[i] == 0) {
      return refuse(error, MNEME_E_UNSUPPORTED, names[i]);
    }
  }
  return MNEME_OK;
}

static int32_t op_supports(mneme_op op, uint32_t dtype, uint32_t device_type) {
  return op != 0 && (dtype == MNEME_F64 || dtype == MNEME_F32) && device_type == MNEME_DEVICE_CPU;
}

static mneme_status op_call(mneme_ctx* ctx, mneme_op op, const mneme_tensor* inputs, uint32_t n_in,
                            const mneme_attr* attrs, uint32_t n_attrs, mneme_tensor* outputs,
                            uint32_t n_out, mneme_error* error) {
  NEEDS_CTX(ctx);
  NEEDS(n_out == 1, "an op of one output");
  return op_run(op, inputs, n_in, attrs, n_attrs, outputs, error);
}

static const mneme_op_api kOps = {
    .struct_size = (uint32_t)sizeof(mneme_op_api),
    .resolve = op_resolve,
    .supports = op_supports,
    .call = op_call,
};

/* ---- tensor ------------------------------------------------------------------------------- */

static mneme_status tensor_shape(mneme_ctx* ctx, mneme_tensor t, mneme_shape* out,
                                 mneme_error* error) {
  const tensor* given = tensor_at(t);
  mneme_shape value = MNEME_INIT(mneme_shape);
  NEEDS_CTX(ctx);
  NEEDS(given != NULL, "shape of a dead handle");
  value.dtype = given->dtype;
  value.rank = given->rank;
  memcpy(value.dims, given->dims, sizeof(value.dims));
  GIVE(mneme_shape, out, value);
  return MNEME_OK;
}

static mneme_status tensor_retain(mneme_ctx* ctx, mneme_tensor t, mneme_error* error) {
  NEEDS_CTX(ctx);
  NEEDS(tensor_at(t) != NULL, "retain of a dead handle");
  ++tensor_at(t)->references;
  return MNEME_OK;
}

static mneme_status tensor_release(mneme_ctx* ctx, mneme_tensor t, mneme_error* error) {
  NEEDS_CTX(ctx);
  NEEDS(t == 0 || tensor_at(t) != NULL, "release of a dead handle");
  if (t != 0) {
    --tensor_at(t)->references;
  }
  return MNEME_OK;
}

static mneme_status tensor_from_data(mneme_ctx* ctx, const mneme_shape* shape, const void* data,
                                     uint64_t bytes, mneme_tensor* out, mneme_error* error) {
  tensor* made = NULL;
  NEEDS_CTX(ctx);
  NEEDS(shape->struct_size == sizeof(mneme_shape), "a mneme_shape of its one size");
  NEEDS(shape->dtype == MNEME_F64, "values in f64: the run computes in it");
  *out = tensor_new(shape->dtype, shape->rank, shape->dims);
  made = tensor_at(*out);
  if (bytes != (uint64_t)made->count * sizeof(double)) {
    return refuse(error, MNEME_E_SHAPE, "bytes that are not what shape and dtype need");
  }
  memcpy(made->data, data, bytes);
  return MNEME_OK;
}

/* Constants of this run of the scenario: the tensors end with it. */
typedef struct constant {
  char key[kMostNames];
  mneme_tensor value;
} constant;
static constant constants[8];

static mneme_status constant_find(mneme_ctx* ctx, const char* key, mneme_tensor* out,
                                  mneme_error* error) {
  size_t i = 0;
  NEEDS_CTX(ctx);
  *out = 0;
  for (i = 0; i < 8; ++i) {
    if (strcmp(constants[i].key, key) == 0) {
      *out = constants[i].value;
    }
  }
  return MNEME_OK;
}

static mneme_status constant_put(mneme_ctx* ctx, const char* key, const mneme_shape* shape,
                                 const void* data, uint64_t bytes, mneme_tensor* out,
                                 mneme_error* error) {
  size_t i = 0;
  const mneme_status status = tensor_from_data(ctx, shape, data, bytes, out, error);
  if (status != MNEME_OK) {
    return status;
  }
  while (i < 8 && constants[i].key[0] != '\0' && strcmp(constants[i].key, key) != 0) {
    ++i;
  }
  NEEDS(i < 8 && strlen(key) < kMostNames, "at most 8 constants with short keys");
  strcpy(constants[i].key, key);
  constants[i].value = *out;
  return MNEME_OK;
}

void forget_constants(void) { memset(constants, 0, sizeof(constants)); }

static const mneme_tensor_api kTensors = {
    .struct_size = (uint32_t)sizeof(mneme_tensor_api),
    .shape = tensor_shape,
    .retain = tensor_retain,
    .release = tensor_release,
    .from_data = tensor_from_data,
    .constant_find = constant_find,
    .constant_put = constant_put,
};

/* ---- layer -------------------------------------------------------------------------------- */

static mneme_status emit_block(mneme_ctx* ctx, const mneme_block* block, mneme_error* error) {
  mneme_block given;
  NEEDS_CTX(ctx);
  TAKE(mneme_block, given, block);
  NEEDS(given.queue != 0 && given.queue <= the_mini_host.n_queues, "a block of a queue");
  NEEDS(given.position_kind == MNEME_POSITION_PLACE, "a block by place");
  the_mini_host.told.block = the_mini_host.queues[given.queue - 1].rows[the_mini_host.layer];
  return MNEME_OK;
}

static mneme_status layer_attention(mneme_ctx* ctx, const mneme_attention* call, mneme_tensor* z,
                                    mneme_tensor* lse, mneme_error* error) {
  mneme_attention given;
  NEEDS_CTX(ctx);
  TAKE(mneme_attention, given, call);
  NEEDS(given.flags == 0 && given.reserved == 0, "attention without flags");
  return attend(&given, z, lse, error);
}

static mneme_status layer_scale(mneme_ctx* ctx, double* out, mneme_error* error) {
  NEEDS_CTX(ctx);
  *out = 1.0 / sqrt((double)kScenarioHeadWidth);
  return MNEME_OK;
}

static mneme_status layer_release(mneme_ctx* ctx, const mneme_rows* rows, mneme_error* error) {
  mneme_rows given;
  NEEDS_CTX(ctx);
  TAKE(mneme_rows, given, rows);
  NEEDS(given.kind == MNEME_ROWS_HIDDEN, "rows of kind HIDDEN");
  the_mini_host.told.released += given.rows;
  return MNEME_OK;
}

static const mneme_layer_api kLayers = {
    .struct_size = (uint32_t)sizeof(mneme_layer_api),
    .emit_block = emit_block,
    .attention = layer_attention,
    .release = layer_release,
    .scale = layer_scale,
};

/* ---- log, parallel, probe, random, report -------------------------------------------------- */

static void log_write(const mneme_host* host, uint32_t level, const char* plugin_id,
                      const char* text, uint64_t length) {
  if (host == host_handle() && level == MNEME_LOG_INFO && length == strlen(text) &&
      strcmp(plugin_id, the_mini_host.plugin->id) == 0) {
    ++the_mini_host.told.log_lines;
  }
}
static const mneme_log_api kLog = {.struct_size = (uint32_t)sizeof(mneme_log_api),
                                   .write = log_write};

static void parallel_run(const mneme_host* host, int64_t count, int64_t grain,
                         mneme_parallel_body body, void* user) {
  const int64_t step = grain < 1 ? 1 : grain;
  int64_t begin = 0;
  (void)host;
  for (begin = 0; begin < count; begin += step) {
    body(user, begin, begin + step < count ? begin + step : count);
  }
}
static const mneme_parallel_api kParallel = {.struct_size = (uint32_t)sizeof(mneme_parallel_api),
                                             .run = parallel_run};

static int32_t probe_wanted(mneme_ctx* ctx, const char* name) {
  return ctx == ctx_handle() && strcmp(name, "squashed") == 0;
}
static mneme_status probe_publish(mneme_ctx* ctx, const char* name, mneme_tensor value,
                                  mneme_error* error) {
  NEEDS_CTX(ctx);
  NEEDS(tensor_at(value) != NULL, "publish of a dead handle");
  if (strcmp(name, "squashed") == 0) {
    the_mini_host.told.probe = value;
  }
  return MNEME_OK;
}
static const mneme_probe_api kProbes = {.struct_size = (uint32_t)sizeof(mneme_probe_api),
                                        .wanted = probe_wanted,
                                        .publish = probe_publish};

static mneme_status draw(mneme_ctx* ctx, const char* name, const mneme_shape* shape,
                         mneme_tensor* out, mneme_error* error) {
  int64_t i = 0;
  NEEDS_CTX(ctx);
  NEEDS(name != NULL && shape->struct_size == sizeof(mneme_shape), "a name and a shape");
  NEEDS(shape->rank >= 1 && shape->dims[0] == the_mini_host.lanes && shape->dtype == MNEME_F64,
        "draws of each lane in f64");
  *out = tensor_new(shape->dtype, shape->rank, shape->dims);
  for (i = 0; i < tensor_at(*out)->count; ++i) {
    tensor_at(*out)->data[i] = scenario_draw(the_mini_host.segment, the_mini_host.layer,
                                             i * the_mini_host.lanes / tensor_at(*out)->count);
  }
  return MNEME_OK;
}
static const mneme_random_api kRandom = {.struct_size = (uint32_t)sizeof(mneme_random_api),
                                         .uniform = draw};

/* The mean over lanes. */
static mneme_status tell(mneme_ctx* ctx, double* sum, mneme_tensor value, mneme_tensor weight,
                         mneme_error* error) {
  const tensor* given = tensor_at(value);
  double total = 0;
  int64_t i = 0;
  NEEDS_CTX(ctx);
  NEEDS(given != NULL && given->rank <= 1 && weight == 0, "a number for each lane, unweighted");
  for (i = 0; i < given->count; ++i) {
    total += given->data[i];
  }
  *sum += total / (double)given->count;
  return MNEME_OK;
}
static mneme_status report_aux(mneme_ctx* ctx, const char* name, mneme_tensor value,
                               mneme_tensor weight, mneme_error* error) {
  NEEDS(the_mini_host.plugin->losses != NULL && strcmp(the_mini_host.plugin->losses, name) == 0,
        "an auxiliary loss that the plugin declares");
  return tell(ctx, &the_mini_host.told.aux, value, weight, error);
}
static mneme_status report_metric(mneme_ctx* ctx, const char* name, mneme_tensor value,
                                  mneme_tensor weight, mneme_error* error) {
  NEEDS(name != NULL, "a metric with a name");
  return tell(ctx, &the_mini_host.told.metric, value, weight, error);
}
static const mneme_report_api kReports = {
    .struct_size = (uint32_t)sizeof(mneme_report_api), .aux = report_aux, .metric = report_metric};

/* ---- torch: since 1.1; the address of a tensor of this host stands for that of LibTorch's ---- */

#ifdef MNEME_GROUP_TORCH
static mneme_status torch_impl(mneme_ctx* ctx, mneme_tensor t, void** out, mneme_error* error) {
  NEEDS_CTX(ctx);
  NEEDS(tensor_at(t) != NULL, "the address of a living tensor");
  *out = tensor_at(t);
  return MNEME_OK;
}

static mneme_status torch_handle(mneme_ctx* ctx, void* impl, mneme_tensor* out,
                                 mneme_error* error) {
  NEEDS_CTX(ctx);
  NEEDS(impl != NULL, "a tensor's address");
  ++((tensor*)impl)->references;
  *out = tensor_handle(impl);
  return MNEME_OK;
}

static const mneme_torch_api kTorch = {.struct_size = (uint32_t)sizeof(mneme_torch_api),
                                       .version = "0.0.0",
                                       .library = "/mini_host",
                                       .impl = torch_impl,
                                       .handle = torch_handle};
#endif

/* ---- all ---------------------------------------------------------------------------------- */

const void* find_group(const mneme_host* host, const char* id) {
  const struct {
    const char* id;
    const void* group;
  } groups[] = {
      {MNEME_GROUP_CONFIG, &kConfig},  {MNEME_GROUP_KERNEL, kernel_group()},
      {MNEME_GROUP_LAYER, &kLayers},   {MNEME_GROUP_LOG, &kLog},
      {MNEME_GROUP_OP, &kOps},         {MNEME_GROUP_PARALLEL, &kParallel},
      {MNEME_GROUP_PROBE, &kProbes},   {MNEME_GROUP_RANDOM, &kRandom},
      {MNEME_GROUP_REPORT, &kReports}, {MNEME_GROUP_STATE, state_group()},
      {MNEME_GROUP_TENSOR, &kTensors},
#ifdef MNEME_GROUP_TORCH
      {MNEME_GROUP_TORCH, &kTorch},
#endif
  };
  size_t i = 0;
  for (i = 0; host == host_handle() && i < sizeof(groups) / sizeof(groups[0]); ++i) {
    if (strcmp(groups[i].id, id) == 0) {
      return groups[i].group;
    }
  }
  return NULL;
}
