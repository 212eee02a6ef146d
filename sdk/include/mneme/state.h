/* mneme/state.h: group "mneme.state/1", parameters, slots and rows queues. All of them belong to the host; a plugin declares them in `create` and uses them in hooks.
 *
 * Because the host owns state, it implements once for every plugin: create, reset of all or single lanes, clone, reorder, detach or keep the graph, move between
 * devices, checkpoint, compare and byte accounting. Writes of a segment become visible to the hooks of the same segment at once, and commit together at its end; an
 * error leaves everything as it was before the segment. */
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

/* One object a layer served, or one for the whole model (for hooks without a layer: begin and finish see only these). */
enum { MNEME_SCOPE_LAYER = 0, MNEME_SCOPE_MODEL = 1 };

/* Initialisation rules; a and b as named. */
enum {
  MNEME_INIT_ZEROS = 0,
  MNEME_INIT_CONSTANT = 1,       /* a */
  MNEME_INIT_NORMAL = 2,         /* mean a, standard deviation b */
  MNEME_INIT_UNIFORM = 3,        /* from a to b */
  MNEME_INIT_XAVIER_UNIFORM = 4, /* gain a (0 = 1); last two dims are fan out, fan in */
  MNEME_INIT_FAN_IN_UNIFORM = 5  /* from -1/sqrt(fan in) to 1/sqrt(fan in), fan in = product of all dims but the first, or the integer part of a when a > 0 */
};

typedef struct mneme_parameter_decl {
  uint32_t struct_size;
  uint32_t flags;
  const char* name; /* [a-z0-9_]+; in checkpoints "memory.<tier>.<plugin id>.<layer>.<name>" */
  uint32_t scope;
  uint32_t rank;
  int64_t dims[MNEME_MAX_RANK];
  uint32_t init;
  uint32_t reserved;
  double a;
  double b;
  double lr_factor;   /* 0 = 1 */
  const char* group;  /* weight-decay group: NULL = the backbone's rule for matrices, "none" = never decayed */
} mneme_parameter_decl;

enum { MNEME_GRADIENT_STOP = 0, MNEME_GRADIENT_THROUGH = 1 };
enum { MNEME_LIFETIME_RUN = 0, MNEME_LIFETIME_SEGMENT = 1 };
enum { MNEME_START_ZEROS = 0, MNEME_START_CONSTANT = 1, MNEME_START_PARAMETER = 2 };

/* A slot of CPU counts: whole numbers that stay on the CPU and that a hook may read (counts_get, counts_set in place of slot_get, slot_set). What is written depends on
 * shapes, configuration and CPU counts alone, so that a hook's sequence of ops may follow from it. dtype 0 or MNEME_I64, gradient STOP, no MNEME_ANY. */
#define MNEME_SLOT_COUNTS 1u

typedef struct mneme_slot_decl {
  uint32_t struct_size;
  uint32_t flags; /* MNEME_SLOT_* */
  const char* name;
  uint32_t scope;
  uint32_t dtype;    /* 0 = f32; f64 runs hold f32 slots in f64, so that gradients can be checked by differences */
  uint32_t gradient; /* STOP: detached when the segment commits. THROUGH: kept over the manifest's train.bptt_segments, then detached */
  uint32_t lifetime; /* SEGMENT: starts afresh with each segment, never saved */
  uint32_t rank;
  uint32_t revision; /* raise it when the meaning of the content changes: a checkpoint of another revision is refused */
  int64_t dims[MNEME_MAX_RANK]; /* dims[0] = MNEME_LANES for state that belongs to lanes, nowhere else; without it the slot belongs to the run: no reset of lanes, not even of all, touches it; MNEME_ANY: 0 at the start, changes with what is written */
  uint32_t start;
  mneme_parameter start_parameter; /* START_PARAMETER: shape dims without MNEME_LANES, copied to every lane, with gradient */
  double start_value;              /* START_CONSTANT */
} mneme_slot_decl;

/* What rows are. */
enum {
  MNEME_ROWS_HIDDEN = 0, /* layer inputs, before the layer's norm: hidden [B,m,D] */
  MNEME_ROWS_NORMED = 1, /* already through the layer's norm: hidden [B,m,D] */
  MNEME_ROWS_KV = 2      /* keys and values before any position term: k, v [B,m,H,d] */
};

/* Rows with what is known of them; fields that are not known, or that say nothing (all rows valid), are 0. */
typedef struct mneme_rows {
  uint32_t struct_size;
  uint32_t flags;
  uint32_t kind;
  uint32_t reserved;
  int64_t rows;           /* m, the same for all lanes */
  mneme_tensor hidden;    /* [B,m,D], compute dtype */
  mneme_tensor k;         /* [B,m,H,d] for MNEME_ROWS_KV */
  mneme_tensor v;
  mneme_tensor valid;     /* [B,m] bool; 0 = every row of every lane is valid */
  mneme_tensor position;  /* [B,m] i64, the row's absolute place in its lane, 0 = none */
  mneme_tensor mass;      /* [B,m] f32, attention mass, 0 = none */
  const int64_t* counts;  /* [B] valid rows of each lane, on the CPU: those of `valid`, or m without it; NULL = m for every lane, or counted by the host from `valid` (on CUDA that waits for the device) */
} mneme_rows;

/* Rows of a queue keep these attributes. */
#define MNEME_ATTRIBUTE_POSITION 1u
#define MNEME_ATTRIBUTE_MASS 2u

typedef struct mneme_queue_decl {
  uint32_t struct_size;
  uint32_t flags;
  const char* name;
  uint32_t scope;
  uint32_t kind;       /* MNEME_ROWS_* */
  uint32_t attributes; /* MNEME_ATTRIBUTE_* kept with each row */
  uint32_t revision;
  int64_t start_rows;  /* rows of zeros that a fresh lane starts with; 0 = empty */
  int64_t capacity;    /* rows that the plugin keeps at most; 0 = unknown, -1 = none at all. Of a checkpoint with more rows the newest are kept. */
} mneme_queue_decl;

typedef struct mneme_state_api {
  uint32_t struct_size;
  uint32_t flags;

  /* [setup] Declarations. Names are unique within a plugin. Errors: MNEME_E_INVALID_ARGUMENT (bad name, twice the same name, shape with a dim < 1). */
  mneme_status (*add_parameter)(mneme_setup* setup, const mneme_parameter_decl* decl, mneme_parameter* out, mneme_error* error);
  mneme_status (*add_slot)(mneme_setup* setup, const mneme_slot_decl* decl, mneme_slot* out, mneme_error* error);
  mneme_status (*add_queue)(mneme_setup* setup, const mneme_queue_decl* decl, mneme_queue* out, mneme_error* error);

  /* [hook] The current layer's (or the model's) parameter, with gradient in training. Borrowed. */
  mneme_status (*parameter)(mneme_ctx* ctx, mneme_parameter id, mneme_tensor* out, mneme_error* error);

  /* [hook] The slot's newest value in this segment, with its graph. Borrowed. Lanes that were reset hold the start value. */
  mneme_status (*slot_get)(mneme_ctx* ctx, mneme_slot id, mneme_tensor* out, mneme_error* error);

  /* [hook] Replaces the slot's value. Errors: MNEME_E_SHAPE, MNEME_E_DTYPE against the declaration. */
  mneme_status (*slot_set)(mneme_ctx* ctx, mneme_slot id, mneme_tensor value, mneme_error* error);

  /* [hook] Rows in the queue now (the same for all lanes; a reset lane's rows stay as invalid ones until they are evicted, unless all lanes were reset). */
  mneme_status (*queue_size)(mneme_ctx* ctx, mneme_queue id, int64_t* rows, mneme_error* error);

  /* [hook] The queue's content as its blocks, oldest first: fills min(capacity, blocks) entries, `stride` bytes apart, and *count = number of blocks. Borrowed. */
  mneme_status (*queue_blocks)(mneme_ctx* ctx, mneme_queue id, mneme_rows* out, uint32_t stride, uint32_t capacity, uint32_t* count, mneme_error* error);

  /* [hook] The queue's content as one piece (copied when it lies in several blocks). out->rows = 0 and no tensors when the queue is empty. */
  mneme_status (*queue_rows)(mneme_ctx* ctx, mneme_queue id, mneme_rows* out, mneme_error* error);

  /* [hook] Appends a block; it is detached and immutable from then on. Costs nothing but the new rows. A block that is the current layer's x, whole or its newest rows
   * (MNEME_ROWS_HIDDEN and the very handle or a view of it made by slice/1), inherits the keys and values computed for x in evaluation when the queue
   * is a layer's; a queue of scope model inherits none. */
  mneme_status (*queue_append)(mneme_ctx* ctx, mneme_queue id, const mneme_rows* block, mneme_error* error);

  /* [hook] Removes the n oldest rows (at most what is there) and returns them as one piece (out = NULL: nobody wants them, nothing is copied); a cut inside a block trims it and its cached projections. */
  mneme_status (*queue_pop_oldest)(mneme_ctx* ctx, mneme_queue id, int64_t n, mneme_rows* out, mneme_error* error);

  /* [hook] Replaces the content by one block, whose first `carried` rows are the queue's newest `carried` rows in their order and whose other rows are the newest rows of
   * the current layer's x: cached projections are carried over. carried = -1: no such relation, caches are dropped. */
  mneme_status (*queue_assign)(mneme_ctx* ctx, mneme_queue id, const mneme_rows* block, int64_t carried, mneme_error* error);

  /* [hook] The values of a slot of MNEME_SLOT_COUNTS, row-major; `count` is their number (B for a slot [MNEME_LANES]). Lanes that were reset hold the start value.
   * Errors: MNEME_E_SHAPE for another number, MNEME_E_INVALID_ARGUMENT for a slot that holds a tensor. */
  mneme_status (*counts_get)(mneme_ctx* ctx, mneme_slot id, int64_t* values, uint64_t count, mneme_error* error);
  mneme_status (*counts_set)(mneme_ctx* ctx, mneme_slot id, const int64_t* values, uint64_t count, mneme_error* error);
} mneme_state_api;

#ifdef __cplusplus
}
#endif
#endif /* MNEME_STATE_H_ */
