/* mneme/state.h: group "mneme.state/1", parameters, slots and rows queues. All of them belong to
 * the host; a plugin declares them in `create` and uses them in hooks.
 *
 * Because the host owns state, it does once for every plugin: create, reset all or single lanes,
 * copy, reorder, detach or keep the graph, move between devices, save, compare, count bytes.
 *
 * When writes count
 *   What a hook writes is seen at once by the later hooks of the same segment, and becomes the
 *   state after the segment's last stage, all of it together. After an error in a hook the segment
 *   is dropped: slots, queues, waiting rows and draws are as before it. In an open segment hooks of
 *   stages 3 and 6 run once a step, and write once a step.
 *
 * What a hook sees
 *   Hooks with a layer (stages 2, 3, 5, 6, 7) see the objects of their layer and those of the
 *   model; `begin` and `finish` (stages 1, 8) those of the model alone, and get MNEME_E_STATE for
 *   an object of a layer.
 *
 * Reset, before stage 1
 *   Of a lane that starts afresh, slots with MNEME_LANES hold the start value, and all rows in
 *   queues and waiting queues are invalid but for a queue's newest `start_rows`, which are zeros;
 *   the rows stay in the queue until they are popped. When all lanes start afresh queues hold their
 *   `start_rows` rows alone. So the valid rows of a lane are always a queue's newest, without
 *   gaps. */
#ifndef MNEME_STATE_H_
#define MNEME_STATE_H_

#include "mneme/abi.h"

#ifdef __cplusplus
extern "C" {
#endif

#define MNEME_GROUP_STATE "mneme.state/1"

typedef uint32_t mneme_parameter; /* 0 = none */
typedef uint32_t mneme_slot;      /* 0 = none */
typedef uint32_t mneme_queue;     /* 0 = none */

/* One object for each layer served, or one for the whole model. */
enum { MNEME_SCOPE_LAYER = 0, MNEME_SCOPE_MODEL = 1 };

/* ---- parameters ---------------------------------------------------------------------------- */

/* How a parameter begins. Values depend on the run's seed and the parameter's name alone. */
enum {
  MNEME_PARAMETER_ZEROS = 0,
  MNEME_PARAMETER_CONSTANT = 1,       /* value */
  MNEME_PARAMETER_NORMAL = 2,         /* mean, deviation */
  MNEME_PARAMETER_UNIFORM = 3,        /* from low to high */
  MNEME_PARAMETER_XAVIER_UNIFORM = 4, /* gain; the last two dims are fan out, fan in */
  MNEME_PARAMETER_FAN_IN_UNIFORM = 5  /* from -1/sqrt(fan_in) to 1/sqrt(fan_in) */
};

/* A learned tensor: f32, f64 in f64 runs. */
typedef struct mneme_parameter_decl {
  uint32_t struct_size;
  uint32_t flags;
  const char* name; /* [a-z0-9_]+; in checkpoints "memory.<tier>.<plugin id>.<layer>.<name>" */
  uint32_t scope;   /* MNEME_SCOPE_* */
  uint32_t rank;
  int64_t dims[MNEME_MAX_RANK]; /* at least 1 each */
  uint32_t init; /* MNEME_PARAMETER_ZEROS ...; others read the fields that it names */
  uint32_t reserved;
  double value;
  double mean;
  double deviation;
  double low;
  double high;
  double gain;       /* 0 = 1 */
  int64_t fan_in;    /* 0 = the product of all dims but the first */
  double lr_factor;  /* factor of the learning rate; 0 = 1 */
  const char* group; /* weight decay: NULL = the backbone's rule for matrices, "none" = never */
} mneme_parameter_decl;

/* ---- slots --------------------------------------------------------------------------------- */

/* What happens to a slot's graph when the segment commits. STOP: cut. THROUGH: kept over the
 * experiment's train.bptt_segments segments, then cut. Inside a segment both carry it. So a
 * START_PARAMETER gets its gradient from the segments up to the first cut after the lane's start
 * alone: from the first with STOP, from the first bptt_segments at most with THROUGH. */
enum { MNEME_GRADIENT_STOP = 0, MNEME_GRADIENT_THROUGH = 1 };

/* RUN: kept from segment to segment, and saved. SEGMENT: starts afresh with each segment. */
enum { MNEME_LIFETIME_RUN = 0, MNEME_LIFETIME_SEGMENT = 1 };

enum { MNEME_START_ZEROS = 0, MNEME_START_CONSTANT = 1, MNEME_START_PARAMETER = 2 };

/* A slot of CPU counts: whole numbers that stay on the CPU and that a hook may read, by counts_get
 * and counts_set in place of slot_get and slot_set. What is written depends on shapes,
 * configuration and CPU counts alone, so that a hook's sequence of ops may follow from it.
 * dtype 0 or MNEME_I64, gradient STOP, no MNEME_ANY, start ZEROS or CONSTANT. */
#define MNEME_SLOT_COUNTS 1u

/* State in one tensor.
 *
 * dims: [0] is MNEME_LANES for state that belongs to lanes; no other entry may be it. A slot
 * without it belongs to the run: no reset, not even of all lanes, touches it. MNEME_ANY is 0 at the
 * start and changes with what is written. All others are at least 1. */
typedef struct mneme_slot_decl {
  uint32_t struct_size;
  uint32_t flags;    /* MNEME_SLOT_* */
  const char* name;  /* [a-z0-9_]+ */
  uint32_t scope;    /* MNEME_SCOPE_* */
  uint32_t dtype;    /* 0 = f32; f64 runs hold f32 slots in f64, to check gradients */
  uint32_t gradient; /* MNEME_GRADIENT_* */
  uint32_t lifetime; /* MNEME_LIFETIME_* */
  uint32_t rank;
  uint32_t revision; /* raise it when the content's meaning changes: others are not restored */
  int64_t dims[MNEME_MAX_RANK];
  uint32_t start; /* MNEME_START_* */
  /* START_PARAMETER: of the slot's scope and of its dims without MNEME_LANES, none of them
   * MNEME_ANY; copied to every lane, with gradient. */
  mneme_parameter start_parameter;
  double start_value; /* START_CONSTANT */
} mneme_slot_decl;

/* ---- rows ---------------------------------------------------------------------------------- */

/* What rows are. */
enum {
  MNEME_ROWS_HIDDEN = 0, /* layer inputs, before the layer's norm: hidden [B,m,D] */
  MNEME_ROWS_NORMED = 1, /* already through the layer's norm: hidden [B,m,D] */
  MNEME_ROWS_KV = 2      /* keys and values before any position term: k, v [B,m,H,d] */
};

/* Rows, oldest first, with what is known of them. Fields that are not known, or that say nothing
 * (all rows valid), are 0.
 *
 * Rows that a hook gets are borrowed, with the array `counts`, until it returns. Rows that it gives
 * may have a gradient; the function's comment says what happens to it. Everything that takes rows
 * gives
 *   MNEME_E_INVALID_ARGUMENT  no tensor of the kind; counts below 0, above m, or not those of
 *                             `valid` (checked where `valid` lies on the CPU)
 *   MNEME_E_SHAPE             a shape that is not the one below; `rows` neither 0 nor m
 *   MNEME_E_DTYPE             valid or position of another dtype */
typedef struct mneme_rows {
  uint32_t struct_size;
  uint32_t flags;
  uint32_t kind; /* MNEME_ROWS_* */
  uint32_t reserved;
  int64_t rows;        /* m, the same for all lanes */
  mneme_tensor hidden; /* [B,m,D] in the compute dtype; not for MNEME_ROWS_KV */
  mneme_tensor k;      /* [B,m,H,d] in the compute dtype, for MNEME_ROWS_KV; v likewise */
  mneme_tensor v;
  mneme_tensor valid;    /* [B,m] bool; 0 = every row of every lane is valid */
  mneme_tensor position; /* [B,m] i64, the row's absolute place in its lane; 0 = not known */
  mneme_tensor mass;     /* [B,m] f32, attention mass; 0 = not known */
  /* [B] valid rows of each lane, on the CPU: those of `valid`, or m without it. NULL = m for every
   * lane; or, in rows that a hook gives with `valid`, counted by the host, which on CUDA waits for
   * the device. */
  const int64_t* counts;
} mneme_rows;

/* What a queue keeps with each row. */
#define MNEME_ATTRIBUTE_POSITION 1u
#define MNEME_ATTRIBUTE_MASS 2u

/* State in rows, first in first out: a queue of immutable blocks. */
typedef struct mneme_queue_decl {
  uint32_t struct_size;
  uint32_t flags;
  const char* name;    /* [a-z0-9_]+ */
  uint32_t scope;      /* MNEME_SCOPE_* */
  uint32_t kind;       /* MNEME_ROWS_* */
  uint32_t attributes; /* MNEME_ATTRIBUTE_* */
  uint32_t revision;   /* as mneme_slot_decl.revision */
  int64_t start_rows;  /* rows of zeros that a fresh lane starts with; 0 = empty */
  /* Rows that the plugin keeps at most, by popping them itself; 0 = unknown, -1 = none at all. Of a
   * checkpoint with more rows the newest are kept. */
  int64_t capacity;
} mneme_queue_decl;

/* ---- functions ----------------------------------------------------------------------------- */

/* Beside what a function's comment says, functions of hooks give MNEME_E_INVALID_ARGUMENT for an id
 * that no add_* gave this instance, and MNEME_E_STATE in `begin` and `finish` for an object of a
 * layer. */
typedef struct mneme_state_api {
  uint32_t struct_size;
  uint32_t flags;

  /* Declarations. Structs and names are copied. A name is unique among the parameters, slots and
   * queues of an instance, and not "waiting", which is the host's. */

  /* [setup] Declares a parameter. Both instances of a tier must declare the same ones.
   * Errors: MNEME_E_INVALID_ARGUMENT: a bad or taken name, lr_factor < 0, fan_in < 0, a group that
   * is not "none". MNEME_E_SHAPE: a dim below 1, rank above MNEME_MAX_RANK. */
  mneme_status (*add_parameter)(mneme_setup* setup, const mneme_parameter_decl* decl,
                                mneme_parameter* out, mneme_error* error);

  /* [setup] Declares a slot.
   * Errors: MNEME_E_INVALID_ARGUMENT: a bad or taken name, a start_parameter that does not exist,
   * counts that are not as MNEME_SLOT_COUNTS says. MNEME_E_SHAPE: a dim that is not allowed there,
   * rank above MNEME_MAX_RANK, a start_parameter of another shape or scope. */
  mneme_status (*add_slot)(mneme_setup* setup, const mneme_slot_decl* decl, mneme_slot* out,
                           mneme_error* error);

  /* [setup] Declares a queue.
   * Errors: MNEME_E_INVALID_ARGUMENT: a bad or taken name, start_rows < 0, capacity < -1. */
  mneme_status (*add_queue)(mneme_setup* setup, const mneme_queue_decl* decl, mneme_queue* out,
                            mneme_error* error);

  /* [hook] The current layer's parameter, or the model's, with gradient in training. Borrowed. */
  mneme_status (*parameter)(mneme_ctx* ctx, mneme_parameter id, mneme_tensor* out,
                            mneme_error* error);

  /* [hook] The slot's newest value in this segment, with its graph. Borrowed.
   * Errors: MNEME_E_INVALID_ARGUMENT for a slot of counts. */
  mneme_status (*slot_get)(mneme_ctx* ctx, mneme_slot id, mneme_tensor* out, mneme_error* error);

  /* [hook] Replaces the slot's value; the host keeps a reference of its own, and the graph.
   * Errors: MNEME_E_SHAPE, MNEME_E_DTYPE against the declaration (no value is cast);
   * MNEME_E_INVALID_ARGUMENT for a slot of counts. */
  mneme_status (*slot_set)(mneme_ctx* ctx, mneme_slot id, mneme_tensor value, mneme_error* error);

  /* [hook] Rows in the queue now, invalid ones included; the same number for all lanes. */
  mneme_status (*queue_size)(mneme_ctx* ctx, mneme_queue id, int64_t* rows, mneme_error* error);

  /* [hook] The queue's content as its blocks, oldest first: fills min(capacity, blocks) entries of
   * `out`, `stride` bytes apart, and *count = number of blocks. Borrowed. In `read`, its rows count
   * towards mneme_tier_traits.read_rows.
   * Errors: MNEME_E_INVALID_ARGUMENT for a stride that is no multiple of 8, or 0. */
  mneme_status (*queue_blocks)(mneme_ctx* ctx, mneme_queue id, mneme_rows* out, uint32_t stride,
                               uint32_t capacity, uint32_t* count, mneme_error* error);

  /* [hook] The queue's content as one piece, borrowed. The host keeps what is read in this way
   * together, so that rows which are appended later are copied a few times, and not whenever the
   * queue is read; the tensors may have strides (a kernel with strided_inputs reads them where they
   * lie). An empty queue gives rows = 0 and no tensors. Counts as queue_blocks does. */
  mneme_status (*queue_rows)(mneme_ctx* ctx, mneme_queue id, mneme_rows* out, mneme_error* error);

  /* [hook] Appends a block, which is detached and immutable from then on; without rows it does
   * nothing. Costs the new rows alone.
   * In evaluation a block that is the current layer's x, whole or its newest rows
   * (MNEME_ROWS_HIDDEN, the very handle or a view of it made by slice/1), inherits the keys and
   * values computed for x when the queue is of scope layer.
   * Errors: those of rows; MNEME_E_INVALID_ARGUMENT for another kind than the queue's, or without
   * an attribute that it keeps. */
  mneme_status (*queue_append)(mneme_ctx* ctx, mneme_queue id, const mneme_rows* block,
                               mneme_error* error);

  /* [hook] Removes the n oldest rows, at most what is there, and gives them as one piece, borrowed;
   * out = NULL: nobody wants them, nothing is copied. A cut inside a block trims it, and the keys
   * and values kept with it. Blocks that this segment's context has emitted stay in it.
   * Errors: MNEME_E_INVALID_ARGUMENT for n < 0. */
  mneme_status (*queue_pop_oldest)(mneme_ctx* ctx, mneme_queue id, int64_t n, mneme_rows* out,
                                   mneme_error* error);

  /* [hook] Replaces the content by one block, detached. carried >= 0 says that its first `carried`
   * rows are the queue's newest `carried` rows in their order, and its other rows the newest rows
   * of the current layer's x: keys and values that are kept are carried over. carried = -1: there
   * is no such relation, they are dropped.
   * Errors: as queue_append; MNEME_E_INVALID_ARGUMENT when `carried` is above the queue's or the
   * block's rows, or the other rows are more than T. */
  mneme_status (*queue_assign)(mneme_ctx* ctx, mneme_queue id, const mneme_rows* block,
                               int64_t carried, mneme_error* error);

  /* [hook] Copies the values of a slot of MNEME_SLOT_COUNTS, row-major; `count` is their number (B
   * for a slot [MNEME_LANES]).
   * Errors: MNEME_E_SHAPE for another number; MNEME_E_INVALID_ARGUMENT for a slot of a tensor. */
  mneme_status (*counts_get)(mneme_ctx* ctx, mneme_slot id, int64_t* values, uint64_t count,
                             mneme_error* error);

  /* [hook] Replaces the values of a slot of MNEME_SLOT_COUNTS. Errors: as counts_get. */
  mneme_status (*counts_set)(mneme_ctx* ctx, mneme_slot id, const int64_t* values, uint64_t count,
                             mneme_error* error);
} mneme_state_api;

#ifdef __cplusplus
}
#endif
#endif /* MNEME_STATE_H_ */
