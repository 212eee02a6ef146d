/* The function groups of the mini host, but for mneme.kernel (mini_host_kernel.c). */
#include <stdio.h>
#include <stdlib.h>

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

#define NEEDS(condition, message)                                \
  do {                                                           \
    if (!(condition)) {                                          \
      return refuse(error, MNEME_E_INVALID_ARGUMENT, (message)); \
    }                                                            \
  } while (0)
#define NEEDS_SETUP(setup) NEEDS((setup) == setup_handle(), "a mneme_setup of no call")
#define NEEDS_CTX(ctx) NEEDS((ctx) == ctx_handle(), "a mneme_ctx of no call")

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

/* The default as text "[1, 2]" -> its numbers; returns how many. */
static uint64_t numbers_of(const char* text, double* out, uint64_t most) {
  uint64_t count = 0;
  while (*text != '\0' && count < most) {
    char* end = NULL;
    out[count] = strtod(text, &end);
    if (end == text) {
      ++text;
    } else {
      text = end;
      ++count;
    }
  }
  return count;
}

#define OPTION(kind)   \
  mneme_option option; \
  NEEDS_SETUP(setup);  \
  NEEDS(option_of(key, (kind), &option), "no option of this key and type")

static mneme_status config_integer(mneme_setup* setup, const char* key, int64_t* out,
                                   mneme_error* error) {
  OPTION(MNEME_OPTION_INTEGER);
  *out = (int64_t)option.default_number;
  return MNEME_OK;
}

static mneme_status config_real(mneme_setup* setup, const char* key, double* out,
                                mneme_error* error) {
  OPTION(MNEME_OPTION_REAL);
  *out = option.default_number;
  return MNEME_OK;
}

static mneme_status config_boolean(mneme_setup* setup, const char* key, int32_t* out,
                                   mneme_error* error) {
  OPTION(MNEME_OPTION_BOOLEAN);
  *out = option.default_number != 0;
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
  static int64_t integers[16];
  double reals[16];
  uint64_t i = 0;
  OPTION(MNEME_OPTION_INTEGERS);
  *count = numbers_of(option.default_text, reals, 16);
  for (i = 0; i < *count; ++i) {
    integers[i] = (int64_t)reals[i];
  }
  *out = integers;
  return MNEME_OK;
}

static mneme_status config_reals(mneme_setup* setup, const char* key, const double** out,
                                 uint64_t* count, mneme_error* error) {
  static double reals[16];
  OPTION(MNEME_OPTION_REALS);
  *count = numbers_of(option.default_text, reals, 16);
  *out = reals;
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

/* ---- state -------------------------------------------------------------------------------- */

/* The current layer, or 0 for an object of the model; -1 when the hook has none. */
static int64_t place_of(uint32_t scope) {
  return scope == MNEME_SCOPE_MODEL ? 0 : the_mini_host.layer;
}

#define OBJECT(kind, list, count, id)                                                  \
  kind* object = NULL;                                                                 \
  int64_t place = 0;                                                                   \
  NEEDS_CTX(ctx);                                                                      \
  NEEDS((id) != 0 && (id) <= the_mini_host.count, "an id of no declaration");          \
  object = &the_mini_host.list[(id)-1];                                                \
  place = place_of(object->decl.scope);                                                \
  if (place < 0) {                                                                     \
    return refuse(error, MNEME_E_STATE, "an object of a layer in a hook without one"); \
  }

static mneme_status add_parameter(mneme_setup* setup, const mneme_parameter_decl* decl,
                                  mneme_parameter* out, mneme_error* error) {
  parameter* made = NULL;
  int64_t layer = 0;
  int64_t i = 0;
  NEEDS_SETUP(setup);
  NEEDS(the_mini_host.n_parameters < kMostParameters, "too many parameters");
  made = &the_mini_host.parameters[the_mini_host.n_parameters];
  TAKE(mneme_parameter_decl, made->decl, decl);
  NEEDS(made->decl.name != NULL && strlen(made->decl.name) < kMostNames, "a name");
  NEEDS(made->decl.rank == 1 && made->decl.dims[0] >= 1 && made->decl.dims[0] <= 64, "one dim");
  NEEDS(made->decl.init <= MNEME_PARAMETER_CONSTANT, "zeros or a constant");
  strcpy(made->name, made->decl.name);
  for (layer = 0; layer < kMostLayers; ++layer) {
    for (i = 0; i < made->decl.dims[0]; ++i) {
      made->values[layer][i] = made->decl.init == MNEME_PARAMETER_CONSTANT ? made->decl.value : 0;
    }
  }
  *out = ++the_mini_host.n_parameters;
  return MNEME_OK;
}

static mneme_status add_slot(mneme_setup* setup, const mneme_slot_decl* decl, mneme_slot* out,
                             mneme_error* error) {
  slot* made = NULL;
  NEEDS_SETUP(setup);
  NEEDS(the_mini_host.n_slots < kMostSlots, "too many slots");
  made = &the_mini_host.slots[the_mini_host.n_slots];
  TAKE(mneme_slot_decl, made->decl, decl);
  NEEDS(made->decl.name != NULL && made->decl.rank >= 1 && made->decl.rank <= 2, "a name and dims");
  NEEDS(made->decl.start != MNEME_START_PARAMETER ||
            (made->decl.start_parameter != 0 &&
             made->decl.start_parameter <= the_mini_host.n_parameters),
        "a start parameter that was declared");
  *out = ++the_mini_host.n_slots;
  return MNEME_OK;
}

static mneme_status add_queue(mneme_setup* setup, const mneme_queue_decl* decl, mneme_queue* out,
                              mneme_error* error) {
  queue* made = NULL;
  NEEDS_SETUP(setup);
  NEEDS(the_mini_host.n_queues < kMostQueues, "too many queues");
  made = &the_mini_host.queues[the_mini_host.n_queues];
  TAKE(mneme_queue_decl, made->decl, decl);
  NEEDS(made->decl.name != NULL && made->decl.kind == MNEME_ROWS_HIDDEN, "rows of kind HIDDEN");
  *out = ++the_mini_host.n_queues;
  return MNEME_OK;
}

static mneme_status parameter_get(mneme_ctx* ctx, mneme_parameter id, mneme_tensor* out,
                                  mneme_error* error) {
  OBJECT(parameter, parameters, n_parameters, id);
  *out = tensor_new(MNEME_F64, 1, object->decl.dims);
  memcpy(tensor_at(*out)->data, object->values[place],
         (size_t)object->decl.dims[0] * sizeof(double));
  return MNEME_OK;
}

static mneme_status slot_get(mneme_ctx* ctx, mneme_slot id, mneme_tensor* out, mneme_error* error) {
  OBJECT(slot, slots, n_slots, id);
  NEEDS((object->decl.flags & MNEME_SLOT_COUNTS) == 0, "slot_get of a slot of counts");
  *out = object->value[place];
  return MNEME_OK;
}

static mneme_status slot_set(mneme_ctx* ctx, mneme_slot id, mneme_tensor value,
                             mneme_error* error) {
  const tensor* given = tensor_at(value);
  OBJECT(slot, slots, n_slots, id);
  NEEDS(given != NULL, "slot_set of a dead handle");
  NEEDS((object->decl.flags & MNEME_SLOT_COUNTS) == 0, "slot_set of a slot of counts");
  if (given->rank != tensor_at(object->value[place])->rank ||
      given->count != tensor_at(object->value[place])->count) {
    return refuse(error, MNEME_E_SHAPE, "slot_set of another shape");
  }
  object->value[place] = value;
  return MNEME_OK;
}

static mneme_status counts_get(mneme_ctx* ctx, mneme_slot id, int64_t* values, uint64_t count,
                               mneme_error* error) {
  OBJECT(slot, slots, n_slots, id);
  NEEDS((object->decl.flags & MNEME_SLOT_COUNTS) != 0 && count <= 64, "a slot of counts");
  memcpy(values, object->counts, count * sizeof(int64_t));
  return MNEME_OK;
}

static mneme_status counts_set(mneme_ctx* ctx, mneme_slot id, const int64_t* values, uint64_t count,
                               mneme_error* error) {
  OBJECT(slot, slots, n_slots, id);
  NEEDS((object->decl.flags & MNEME_SLOT_COUNTS) != 0 && count <= 64, "a slot of counts");
  memcpy(object->counts, values, count * sizeof(int64_t));
  return MNEME_OK;
}

static int64_t rows_in(mneme_tensor rows) { return rows == 0 ? 0 : tensor_at(rows)->dims[1]; }

static mneme_status queue_size(mneme_ctx* ctx, mneme_queue id, int64_t* rows, mneme_error* error) {
  OBJECT(queue, queues, n_queues, id);
  *rows = rows_in(object->rows[place]);
  return MNEME_OK;
}

static void give_rows(mneme_rows* out, mneme_tensor rows) {
  mneme_rows value = MNEME_INIT(mneme_rows);
  static int64_t counts[kScenarioLanes];
  int64_t lane = 0;
  for (lane = 0; lane < kScenarioLanes; ++lane) {
    counts[lane] = rows_in(rows);
  }
  value.kind = MNEME_ROWS_HIDDEN;
  value.rows = rows_in(rows);
  value.hidden = rows;
  value.counts = counts;
  GIVE(mneme_rows, out, value);
}

static mneme_status queue_rows(mneme_ctx* ctx, mneme_queue id, mneme_rows* out,
                               mneme_error* error) {
  OBJECT(queue, queues, n_queues, id);
  give_rows(out, object->rows[place]);
  return MNEME_OK;
}

static mneme_status queue_append(mneme_ctx* ctx, mneme_queue id, const mneme_rows* block,
                                 mneme_error* error) {
  mneme_rows rows;
  OBJECT(queue, queues, n_queues, id);
  TAKE(mneme_rows, rows, block);
  NEEDS(rows.kind == object->decl.kind && tensor_at(rows.hidden) != NULL, "rows of kind HIDDEN");
  object->rows[place] =
      object->rows[place] == 0 ? rows.hidden : rows_joined(object->rows[place], rows.hidden);
  return MNEME_OK;
}

static mneme_status queue_pop_oldest(mneme_ctx* ctx, mneme_queue id, int64_t n, mneme_rows* out,
                                     mneme_error* error) {
  int64_t size = 0;
  OBJECT(queue, queues, n_queues, id);
  NEEDS(n >= 0, "a number of rows of at least 0");
  size = rows_in(object->rows[place]);
  n = n < size ? n : size;
  if (out != NULL) {
    give_rows(out, n == 0 ? 0 : rows_between(object->rows[place], 0, n));
  }
  if (n > 0) {
    object->rows[place] = n == size ? 0 : rows_between(object->rows[place], n, size);
  }
  return MNEME_OK;
}

static const mneme_state_api kState = {
    .struct_size = (uint32_t)sizeof(mneme_state_api),
    .add_parameter = add_parameter,
    .add_slot = add_slot,
    .add_queue = add_queue,
    .parameter = parameter_get,
    .slot_get = slot_get,
    .slot_set = slot_set,
    .queue_size = queue_size,
    .queue_rows = queue_rows,
    .queue_append = queue_append,
    .queue_pop_oldest = queue_pop_oldest,
    .counts_get = counts_get,
    .counts_set = counts_set,
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

/* ---- all ---------------------------------------------------------------------------------- */

const void* find_group(const mneme_host* host, const char* id) {
  const struct {
    const char* id;
    const void* group;
  } groups[] = {{MNEME_GROUP_CONFIG, &kConfig},  {MNEME_GROUP_KERNEL, kernel_group()},
                {MNEME_GROUP_LAYER, &kLayers},   {MNEME_GROUP_LOG, &kLog},
                {MNEME_GROUP_OP, &kOps},         {MNEME_GROUP_PARALLEL, &kParallel},
                {MNEME_GROUP_PROBE, &kProbes},   {MNEME_GROUP_RANDOM, &kRandom},
                {MNEME_GROUP_REPORT, &kReports}, {MNEME_GROUP_STATE, &kState},
                {MNEME_GROUP_TENSOR, &kTensors}};
  size_t i = 0;
  for (i = 0; host == host_handle() && i < sizeof(groups) / sizeof(groups[0]); ++i) {
    if (strcmp(groups[i].id, id) == 0) {
      return groups[i].group;
    }
  }
  return NULL;
}
