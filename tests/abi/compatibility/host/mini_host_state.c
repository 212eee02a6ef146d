/* mneme.state of the mini host: parameters, slots and queues of rows. */
#include "mini_host.h"
#include "scenario.h"

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

const mneme_state_api* state_group(void) { return &kState; }
