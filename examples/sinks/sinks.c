/* sinks: the first rows that a lane reads, and its newest ones. Attention sinks, StreamingLLM
 * [Xiao, Tian, Chen, Han and Lewis 2023], in plain C.
 *
 *   absorb   a lane's first `sinks` rows go to the queue `first`, all others to the queue `recent`,
 *            of which the newest `window` stay
 *   context  first, then recent: rows stand by place, the sinks directly before the window
 *
 * Lanes start at different times. In a lane with fewer rows than others the oldest places of
 * `first` are empty; in `recent` the rows that went to `first` are marked as invalid. So both
 * queues hold the valid rows of each lane as their newest ones, without gaps. */
#include <stdlib.h>

#include "mneme/c/ops.h"
#include "mneme/sdk.h"

/* Every host call returns a status and fills `error`; the first failure ends the function with the
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
static const mneme_layer_api* layers;
static const mneme_config_api* config;

static const mneme_op_id kOps[] = {MNEME_OP_CAT, MNEME_OP_SLICE, MNEME_OP_TAKE_ALONG_DIM};

/* What an instance is: configuration and ids, nothing that a hook changes. */
typedef struct sinks {
  int64_t count;  /* most sinks of a lane */
  int64_t window; /* most other rows */
  mneme_ops ops;
  mneme_queue first;
  mneme_queue recent;
} sinks;

static mneme_status init(const mneme_host* host, mneme_get_group_fn get_group, mneme_error* error) {
  tensors = get_group(host, MNEME_GROUP_TENSOR);
  op_api = get_group(host, MNEME_GROUP_OP);
  state = get_group(host, MNEME_GROUP_STATE);
  layers = get_group(host, MNEME_GROUP_LAYER);
  config = get_group(host, MNEME_GROUP_CONFIG);
  if (tensors == NULL || op_api == NULL || state == NULL || layers == NULL || config == NULL) {
    return MNEME_FAIL(error, MNEME_E_UNSUPPORTED,
                      "this host lacks one of the groups tensor, op, state, layer and config");
  }
  return MNEME_OK;
}

/* ---- an instance -------------------------------------------------------------------------- */

static mneme_status add_queue(mneme_setup* setup, const char* name, int64_t rows, mneme_queue* out,
                              mneme_error* error) {
  mneme_queue_decl decl = MNEME_INIT(mneme_queue_decl);
  decl.name = name;
  decl.kind = MNEME_ROWS_HIDDEN;
  decl.capacity = rows > 0 ? rows : -1;
  return state->add_queue(setup, &decl, out, error);
}

static mneme_status declare(sinks* self, mneme_setup* setup, mneme_error* error) {
  TRY(config->integer(setup, "sinks", &self->count, error));
  TRY(config->integer(setup, "window", &self->window, error));
  if (self->count + self->window == 0) {
    return MNEME_FAIL(error, MNEME_E_INVALID_ARGUMENT,
                      "sinks and window are both 0: no row would be kept");
  }
  TRY(mneme_ops_resolve(&self->ops, op_api, setup, kOps, sizeof(kOps) / sizeof(kOps[0]), error));
  TRY(add_queue(setup, "first", self->count, &self->first, error));
  return add_queue(setup, "recent", self->window, &self->recent, error);
}

static mneme_status create(const mneme_host* host, mneme_setup* setup,
                           const mneme_model_info* model, mneme_tier_traits* traits,
                           void** instance, mneme_error* error) {
  mneme_status status;
  sinks* self = calloc(1, sizeof(*self));
  (void)host;
  (void)model;
  if (self == NULL) {
    return MNEME_FAIL(error, MNEME_E_OUT_OF_MEMORY, "no memory for an instance");
  }
  status = declare(self, setup, error);
  if (status != MNEME_OK) {
    free(self);
    return status;
  }
  traits->flags = MNEME_TIER_RELEASES | MNEME_TIER_CUT_INVARIANT;
  traits->absorb = MNEME_ABSORB_AFTER_SEGMENT;
  traits->context_rows = self->count + self->window;
  *instance = self;
  return MNEME_OK;
}

static void destroy(void* instance) { free(instance); }

/* ---- tensors ------------------------------------------------------------------------------ */

/* [B,m] bool from bytes; 0, which says that all rows are valid, when no byte is 0. */
static mneme_status mask_of(mneme_ctx* ctx, const uint8_t* valid, int64_t lanes, int64_t rows,
                            mneme_tensor* out, mneme_error* error) {
  mneme_shape shape = MNEME_INIT(mneme_shape);
  int64_t i = 0;
  shape.dtype = MNEME_BOOL;
  shape.rank = 2;
  shape.dims[0] = lanes;
  shape.dims[1] = rows;
  while (i < lanes * rows && valid[i] != 0) {
    ++i;
  }
  *out = 0;
  return i == lanes * rows
             ? MNEME_OK
             : tensors->from_data(ctx, &shape, valid, (uint64_t)(lanes * rows), out, error);
}

/* [B,m,1] i64: which row stands in each place. */
static mneme_status index_of(mneme_ctx* ctx, const int64_t* source, int64_t lanes, int64_t rows,
                             mneme_tensor* out, mneme_error* error) {
  mneme_shape shape = MNEME_INIT(mneme_shape);
  shape.dtype = MNEME_I64;
  shape.rank = 3;
  shape.dims[0] = lanes;
  shape.dims[1] = rows;
  shape.dims[2] = 1;
  return tensors->from_data(ctx, &shape, source, (uint64_t)(lanes * rows) * sizeof(*source), out,
                            error);
}

/* ---- absorb ------------------------------------------------------------------------------- */

/* One absorb, on the CPU: lanes' counts, and room for the places of a block. */
typedef struct plan {
  int64_t lanes;
  int64_t* have;   /* [B] sinks of each lane before this segment */
  int64_t* taken;  /* [B] rows of the segment that become sinks: its first ones */
  int64_t* counts; /* [B] valid rows of the block that is made */
  int64_t* source; /* [B, at most count] */
  uint8_t* valid;  /* [B, at most count or T] */
} plan;

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

/* Valid rows of a lane; those of the segment are its first ones, padding stands behind them. */
static int64_t valid_rows(const mneme_rows* rows, int64_t lane) {
  return rows->counts != NULL ? rows->counts[lane] : rows->rows;
}

static void free_plan(plan* p) {
  free(p->have);
  free(p->valid);
}

static mneme_status make_plan(const sinks* self, const mneme_absorb* in, plan* p,
                              mneme_error* error) {
  const size_t lanes = (size_t)in->segment->lanes;
  const size_t places = (size_t)larger(self->count, in->rows->rows);
  p->lanes = in->segment->lanes;
  p->have = calloc(lanes * (3 + (size_t)self->count), sizeof(*p->have));
  p->valid = calloc(lanes * places, sizeof(*p->valid));
  if (p->have == NULL || p->valid == NULL) {
    free_plan(p);
    return MNEME_FAIL(error, MNEME_E_OUT_OF_MEMORY, "no memory for the places of rows");
  }
  p->taken = p->have + lanes;
  p->counts = p->taken + lanes;
  p->source = p->counts + lanes;
  return MNEME_OK;
}

/* Fills source, valid and counts for `size` places of the new sinks of all lanes: each lane's sinks
 * are the newest, of `held` old places first, then of the segment's rows. */
static void place_sinks(plan* p, int64_t held, int64_t size) {
  int64_t b = 0;
  for (b = 0; b < p->lanes; ++b) {
    int64_t r = 0;
    p->counts[b] = p->have[b] + p->taken[b];
    for (r = 0; r < size; ++r) {
      const int64_t sink = r - (size - p->counts[b]);
      const int64_t at = b * size + r;
      p->valid[at] = sink >= 0;
      p->source[at] = sink < 0 ? 0 : held + sink - p->have[b];
    }
  }
}

/* Lanes that have too few sinks take the segment's first rows. */
static mneme_status take_sinks(const sinks* self, mneme_ctx* ctx, const mneme_rows* rows, plan* p,
                               mneme_error* error) {
  mneme_rows held = MNEME_INIT(mneme_rows);
  mneme_rows next = MNEME_INIT(mneme_rows);
  mneme_tensor all = 0;
  mneme_tensor index = 0;
  int64_t b = 0;
  int64_t taken = 0;
  TRY(state->queue_rows(ctx, self->first, &held, error));
  for (b = 0; b < p->lanes; ++b) {
    p->have[b] = smaller(valid_rows(&held, b), self->count);
    p->taken[b] = smaller(self->count - p->have[b], valid_rows(rows, b));
    next.rows = larger(next.rows, p->have[b] + p->taken[b]);
    taken = larger(taken, p->taken[b]);
  }
  if (taken == 0) {
    return MNEME_OK;
  }
  place_sinks(p, held.rows, next.rows);
  TRY(mneme_op_slice(&self->ops, ctx, rows->hidden, 1, 0, taken, 1, &all, error));
  if (held.rows > 0) {
    const mneme_tensor parts[2] = {held.hidden, all};
    TRY(mneme_op_cat(&self->ops, ctx, parts, 2, 1, &all, error));
  }
  TRY(index_of(ctx, p->source, p->lanes, next.rows, &index, error));
  TRY(mneme_op_take_along_dim(&self->ops, ctx, all, index, 1, &next.hidden, error));
  TRY(mask_of(ctx, p->valid, p->lanes, next.rows, &next.valid, error));
  next.kind = MNEME_ROWS_HIDDEN;
  next.counts = p->counts;
  return state->queue_assign(ctx, self->first, &next, -1, error);
}

/* The other rows. What no lane needs is left out, so that the block is the segment's own rows
 * whenever it can be: then the host has its keys and values already. */
static mneme_status append_others(const sinks* self, mneme_ctx* ctx, const mneme_rows* rows,
                                  plan* p, mneme_error* error) {
  mneme_rows block = MNEME_INIT(mneme_rows);
  int64_t b = 0;
  int64_t r = 0;
  int64_t skipped = p->taken[0];
  for (b = 1; b < p->lanes; ++b) {
    skipped = smaller(skipped, p->taken[b]);
  }
  block.kind = MNEME_ROWS_HIDDEN;
  block.rows = rows->rows - skipped;
  if (block.rows == 0) {
    return MNEME_OK;
  }
  for (b = 0; b < p->lanes; ++b) {
    p->counts[b] = valid_rows(rows, b) - p->taken[b];
    for (r = 0; r < block.rows; ++r) {
      const int64_t row = r + skipped;
      p->valid[b * block.rows + r] = row >= p->taken[b] && row < valid_rows(rows, b);
    }
  }
  TRY(mneme_op_slice(&self->ops, ctx, rows->hidden, 1, skipped, rows->rows, 1, &block.hidden,
                     error));
  TRY(mask_of(ctx, p->valid, p->lanes, block.rows, &block.valid, error));
  block.counts = p->counts;
  return state->queue_append(ctx, self->recent, &block, error);
}

static mneme_status trim_window(const sinks* self, mneme_ctx* ctx, mneme_error* error) {
  mneme_rows old = MNEME_INIT(mneme_rows);
  int64_t size = 0;
  TRY(state->queue_size(ctx, self->recent, &size, error));
  if (size <= self->window) {
    return MNEME_OK;
  }
  TRY(state->queue_pop_oldest(ctx, self->recent, size - self->window, &old, error));
  return layers->release(ctx, &old, error);
}

static mneme_status absorb(void* instance, mneme_ctx* ctx, const mneme_absorb* in,
                           mneme_error* error) {
  const sinks* self = instance;
  plan p = {0};
  mneme_status status;
  if ((in->flags & MNEME_ABSORBS_OWN_SEGMENT) == 0) {
    return MNEME_FAIL(error, MNEME_E_UNSUPPORTED,
                      "sinks keeps the first rows of a text, which rows that another tier lets go "
                      "are not: place it before that tier, or set feed = \"segment\"");
  }
  TRY(make_plan(self, in, &p, error));
  status = take_sinks(self, ctx, in->rows, &p, error);
  if (status == MNEME_OK) {
    status = append_others(self, ctx, in->rows, &p, error);
  }
  if (status == MNEME_OK) {
    status = trim_window(self, ctx, error);
  }
  free_plan(&p);
  return status;
}

/* ---- context ------------------------------------------------------------------------------ */

static mneme_status context(void* instance, mneme_ctx* ctx, const mneme_context* in,
                            mneme_error* error) {
  const sinks* self = instance;
  mneme_block block = MNEME_INIT(mneme_block);
  (void)in;
  block.position_kind = MNEME_POSITION_PLACE;
  block.queue = self->first;
  TRY(layers->emit_block(ctx, &block, error));
  block.queue = self->recent;
  return layers->emit_block(ctx, &block, error);
}

/* ---- the plugin --------------------------------------------------------------------------- */

static const mneme_option kOptions[] = {
    {
        .struct_size = (uint32_t)sizeof(mneme_option),
        .flags = MNEME_OPTION_BOUNDED | MNEME_OPTION_AT_EVALUATION,
        .key = "sinks",
        .help = "first rows of each lane that are kept",
        .type = MNEME_OPTION_INTEGER,
        .default_integer = 4,
        .min_integer = 0,
        .max_integer = 4096,
    },
    {
        .struct_size = (uint32_t)sizeof(mneme_option),
        .flags = MNEME_OPTION_BOUNDED | MNEME_OPTION_AT_EVALUATION,
        .key = "window",
        .help = "newest rows, besides the first ones, that are kept",
        .type = MNEME_OPTION_INTEGER,
        .default_integer = 60,
        .min_integer = 0,
        .max_integer = 1048576,
    },
};

static const mneme_plugin kPlugin = {
    .struct_size = (uint32_t)sizeof(mneme_plugin),
    .id = "org.example.sinks",
    .version = "0.1.0",
    .summary = "the first rows of a text and the newest ones; StreamingLLM, Xiao et al. 2023",
    .options = kOptions,
    .option_count = sizeof(kOptions) / sizeof(kOptions[0]),
    .option_stride = (uint32_t)sizeof(mneme_option),
    .init = init,
    .create = create,
    .destroy = destroy,
    .absorb = absorb,
    .context = context,
    .losses = "",
};

MNEME_PLUGIN_ENTRY(kPlugin, "org.example.sinks", "0.1.0",
                   "mneme.tensor/1 mneme.op/1 mneme.state/1 mneme.layer/1 mneme.config/1");
