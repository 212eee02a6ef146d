/* mneme/plugin.h: what a plugin is: the entry point, the table of its functions, and the hooks with what they get and give. Includes the whole C ABI.
 *
 * The life of a plugin:
 *   note read from the file (no code runs) -> library mapped -> mneme_negotiate_v1 -> `init` once -> any number of instances: create, hooks, destroy.
 * An instance holds configuration, ids of what it declared, and nothing that a hook changes; it serves any number of runs (training, validation, each generation).
 * Hooks of one tier are called by one thread at a time, by any thread; a kernel's backward may come on another one.
 *
 * Sizes: B lanes, T tokens of the segment, m rows, L layers, H heads, d head width, D model width. x, hidden rows, q/k/v and z come in the layer's compute dtype; parameters
 * and slots in f32 when that is bf16. The host casts what a hook gives back to the dtype it is merged with.
 * Layers run in ascending order, within a moment tiers in stack order. A layer's moment 7 (absorb after the segment) follows its moment 6, so model-scope state that a low
 * layer's absorb writes is what higher layers see in the same segment; what they must not see is written in finish.
 * docs/walkthrough.md follows one segment of six memories through these hooks. */
#ifndef MNEME_PLUGIN_H_
#define MNEME_PLUGIN_H_

#include "mneme/abi.h"
#include "mneme/config.h"
#include "mneme/kernel.h"
#include "mneme/layer.h"
#include "mneme/log.h"
#include "mneme/note.h"
#include "mneme/op.h"
#include "mneme/parallel.h"
#include "mneme/probe.h"
#include "mneme/random.h"
#include "mneme/state.h"
#include "mneme/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- create ------------------------------------------------------------------------------------------------------------------------------------------------ */

/* The backbone as `create` sees it. Valid during the call. */
typedef struct mneme_model_info {
  uint32_t struct_size;
  uint32_t flags;         /* MNEME_MODEL_* */
  int64_t width;          /* D */
  int64_t heads;          /* H */
  int64_t head_width;     /* d */
  int64_t layers;         /* L */
  const int64_t* served;  /* indices of the layers that this tier serves, ascending */
  int64_t served_count;
  int64_t segment;        /* T of the run (of evaluation when MNEME_MODEL_EVALUATION) */
  int64_t bptt_segments;  /* segments that a THROUGH slot keeps its graph */
  const char* position;   /* "relative", "disentangled", "alibi", "learned", "none", ... */
  uint32_t compute_dtype; /* MNEME_F64, MNEME_F32 or MNEME_BF16 */
  uint32_t reserved;
  double attention_dropout; /* of the backbone's attention, in training */
} mneme_model_info;

/* This instance gets the values that the manifest gives for evaluation. */
#define MNEME_MODEL_EVALUATION 1u
/* Norm before attention (pre) instead of after (post). */
#define MNEME_MODEL_PRE_NORM 2u

/* When `absorb` runs. */
enum {
  MNEME_ABSORB_NEVER = 0,
  MNEME_ABSORB_BEFORE_READING = 1, /* with the rows that wait since the previous segment, inside this segment's graph */
  MNEME_ABSORB_AFTER_SEGMENT = 2
};

/* Sites of `read`. */
#define MNEME_SITE_HEADS 1u /* before the output projection; results [B,T,H,d] */
#define MNEME_SITE_OUT 2u   /* after it, before dropout and residual; results [B,T,D] */

/* Tensors that hooks want; nothing else is kept or computed. */
#define MNEME_WANT_ABSORB_X ((uint64_t)1 << 0)
#define MNEME_WANT_ABSORB_Z ((uint64_t)1 << 1)
#define MNEME_WANT_ABSORB_LSE ((uint64_t)1 << 2)
#define MNEME_WANT_ABSORB_Q ((uint64_t)1 << 3)
#define MNEME_WANT_ABSORB_K ((uint64_t)1 << 4)
#define MNEME_WANT_ABSORB_V ((uint64_t)1 << 5)
#define MNEME_WANT_ABSORB_MASS ((uint64_t)1 << 6)
#define MNEME_WANT_ABSORB_CONTEXT_KV ((uint64_t)1 << 7)
#define MNEME_WANT_READ_Q ((uint64_t)1 << 16)
#define MNEME_WANT_READ_K ((uint64_t)1 << 17)
#define MNEME_WANT_READ_V ((uint64_t)1 << 18)
#define MNEME_WANT_READ_Z ((uint64_t)1 << 19)
#define MNEME_WANT_READ_LSE ((uint64_t)1 << 20)
#define MNEME_WANT_READ_PROJECTED ((uint64_t)1 << 21)
#define MNEME_WANT_READ_X ((uint64_t)1 << 22)
#define MNEME_WANT_FINISH_TOP ((uint64_t)1 << 32)
#define MNEME_WANT_FINISH_LAYERS ((uint64_t)1 << 33)
#define MNEME_WANT_FINISH_TARGETS ((uint64_t)1 << 34)
#define MNEME_WANT_FINISH_LOGP ((uint64_t)1 << 35)

#define MNEME_TIER_RELEASES 1u      /* calls release(): later tiers are fed by it */
#define MNEME_TIER_RIDERS 2u        /* `begin` gives riders, `ride` serves them */
#define MNEME_TIER_TOKEN_BIAS 4u    /* `context` may emit a bias on token columns */
#define MNEME_TIER_CUT_INVARIANT 8u /* the same losses however a text is cut into segments, as long as nothing is dropped */

/* What an instance is, filled by `create`. An instance for evaluation must declare the same parameters as the one for training. */
typedef struct mneme_tier_traits {
  uint32_t struct_size;
  uint32_t flags; /* MNEME_TIER_* */
  uint64_t wants; /* MNEME_WANT_* */
  uint32_t absorb;
  uint32_t sites;
  int64_t context_rows; /* most rows that `context` emits for a layer (riders included), which the host holds the tier to; model.same_length sums it over tiers. 0 = none */
  int64_t max_segment;  /* longest segment that the tier can serve, 0 = any */
  int64_t read_rows;    /* most rows that `read` reaches in a layer beside those of `context`, as a kNN memory does; reports add it to context_rows. 0 = not said: the rows
                           that `read` was seen to get of its queues are reported. Where it is given, the host holds the tier to it */
} mneme_tier_traits;

/* ---- hooks ------------------------------------------------------------------------------------------------------------------------------------------------- */

/* The segment, part of every hook's input. Valid during the hook. */
typedef struct mneme_segment {
  uint32_t struct_size;
  uint32_t flags;               /* MNEME_SEGMENT_* */
  int64_t index;                /* segments since the run's start */
  int64_t lanes;                /* B */
  int64_t length;               /* T, padding included */
  int64_t previous_length;      /* T of the segment before, 0 at the run's start */
  int64_t layers;               /* L */
  int64_t offset;               /* tokens of an open segment before this call; 0 at its first step and in closed segments */
  const int64_t* tokens;        /* [B] tokens of each lane since it started afresh, before this segment, padding not counted */
  const int64_t* valid_count;   /* [B] tokens of each lane that are no padding */
  const uint8_t* reset;         /* [B] 1 = this lane starts afresh with this segment; at a run's start all are 1 */
  mneme_tensor valid;           /* [B,T] bool, 0 = no padding anywhere */
  mneme_tensor reset_mask;      /* [B] bool, 0 = no lane was reset */
  uint32_t compute_dtype;
  uint32_t device_type;
} mneme_segment;

#define MNEME_SEGMENT_TRAINING 1u
#define MNEME_SEGMENT_ANY_RESET 2u
#define MNEME_SEGMENT_NO_LOSS 8u /* training, but this segment only fills the memory: no gradient, and auxiliary losses are not looked at */
#define MNEME_SEGMENT_OPEN 4u /* generation: the segment grows step by step. Moments 3, 4 and 6 run in every step: T = its new tokens are the queries, `offset` + T tokens so far the keys;
                                 moments 1, 2 and 5 in the first step alone. At the close, moments 7 and 8 see a whole segment: T = all its tokens, offset 0, without this flag */

/* begin: riders to fill, or nothing. Riders pass projections, norms and feed-forward of every layer with the tokens, and stand before them. */
typedef struct mneme_riders {
  uint32_t struct_size;
  uint32_t flags;
  mneme_tensor rows;  /* [B,M,D], as embedded: after embedding scale and dropout; 0 = none. Riders that a lane does not have take no place in it */
  mneme_tensor valid; /* [B,M] bool, 0 = all */
} mneme_riders;

/* absorb. Optional tensors are 0 unless wanted. */
typedef struct mneme_absorb {
  uint32_t struct_size;
  uint32_t flags; /* MNEME_ABSORB_* */
  const mneme_segment* segment;
  int64_t layer;
  const mneme_rows* rows; /* what the tier is fed with: detached rows of kind MNEME_ROWS_HIDDEN, at least one */
  mneme_tensor x;    /* [B,T,D] the input of this layer in this segment, in the graph (slots of gradient STOP, queues and release detach by themselves) */
  mneme_tensor z;    /* [B,T,H,d] local attention's result, in the graph; z .. context_v only when absorbing after the segment */
  mneme_tensor lse;  /* [B,H,T] */
  mneme_tensor q;    /* [B,T,H,d] without position terms or biases, in the graph; k and v likewise */
  mneme_tensor k;
  mneme_tensor v;
  mneme_tensor mass; /* [B,R+T] f32, detached: attention mass per key column, summed over heads and valid queries, before dropout; this tier's own blocks first to last,
                        then tokens. Divide by H * valid_count[b] for the mean */
  int64_t mass_rows; /* R: how many of the columns are this tier's */
  mneme_tensor context_k; /* [B,R,H,d], detached: keys of this tier's own blocks, first to last, before position terms; 0 when it emitted none. context_v likewise */
  mneme_tensor context_v;
} mneme_absorb;

/* `rows` are this very segment's tokens: row i is token i of x, and column R+i of `mass`. */
#define MNEME_ABSORB_OWN_SEGMENT 1u

/* context: emit blocks with mneme_layer_api. */
typedef struct mneme_context {
  uint32_t struct_size;
  uint32_t flags;
  const mneme_segment* segment;
  int64_t layer;
  mneme_tensor x; /* [B,T,D] the layer's input */
} mneme_context;

/* ride: attention of the riders. Give the result [B,M,H,d]. */
typedef struct mneme_ride {
  uint32_t struct_size;
  uint32_t flags;
  const mneme_segment* segment;
  int64_t layer;
  int64_t riders;        /* M */
  mneme_tensor q_riders; /* [B,M,H,d] */
  mneme_tensor k;        /* [B,M+T,H,d] riders' keys, then tokens' */
  mneme_tensor v;
  mneme_tensor valid;    /* [B,M+T] bool, 0 = all */
  mneme_tensor hidden;   /* [B,M,D] the riders' input of this layer */
  int32_t is_last;       /* 1 in the last layer: what riders become there reaches nothing; the result may be left 0 */
  uint32_t reserved;
} mneme_ride;

/* How a read result joins the local one. At a site all LSE results join first, in one softmax with the local one; the others follow in stack order. */
enum {
  MNEME_MERGE_NONE = 0,    /* nothing this time */
  MNEME_MERGE_ADD = 1,     /* local + out */
  MNEME_MERGE_GATE = 2,    /* a*out + (1-a)*local; where a = 0 out is not looked at */
  MNEME_MERGE_LSE = 3,     /* HEADS only: exact joint softmax over the extra keys that out and lse summarise */
  MNEME_MERGE_REPLACE = 4  /* out */
};

/* read: queries in. Optional tensors are 0 unless wanted. */
typedef struct mneme_queries {
  uint32_t struct_size;
  uint32_t flags;
  const mneme_segment* segment;
  int64_t layer;
  uint32_t site;
  uint32_t reserved;
  mneme_tensor q; /* [B,T,H,d] without position terms or biases; k and v likewise, token rows only: in an open segment all tokens so far, [B,offset+T,H,d] */
  mneme_tensor k;
  mneme_tensor v;
  mneme_tensor z;         /* [B,T,H,d] local attention's result */
  mneme_tensor lse;       /* [B,H,T] */
  mneme_tensor projected; /* [B,T,D] at MNEME_SITE_OUT: the projected local result */
  mneme_tensor x;         /* [B,T,D] the layer's input */
} mneme_queries;

/* read: result out. */
typedef struct mneme_read {
  uint32_t struct_size;
  uint32_t flags;
  uint32_t merge;
  uint32_t reserved;
  mneme_tensor out;  /* HEADS [B,T,H,d] or [B,T,H*d]; OUT [B,T,D]; dims of 1 broadcast over B and T */
  mneme_tensor gate; /* GATE: a, broadcastable to out */
  mneme_tensor lse;  /* LSE: [B,H,T]; -inf = this query reads nothing */
} mneme_read;

/* finish. Optional tensors are 0 unless wanted. */
typedef struct mneme_finish {
  uint32_t struct_size;
  uint32_t flags;
  const mneme_segment* segment;
  mneme_tensor top;           /* [B,T,D] the last layer's output */
  mneme_tensor targets;       /* [B,T] i64; -1 = no target */
  mneme_tensor logp;          /* [B,T] log-probability of the target, 0 without one */
  const mneme_tensor* layers; /* [L] outputs of all layers, [B,T,D] each; NULL unless wanted */
} mneme_finish;

/* A group of host functions by id and revision; NULL when this host does not have it, and when the plugin's note does not list it. `host` is the plugin's own: what init got. [any]. Valid for the process's life; a released group never changes. */
typedef const void* (*mneme_get_group_fn)(const mneme_host* host, const char* id);

/* ---- the plugin's table -------------------------------------------------------------------------------------------------------------------------------------- */

/* Valid for the process's life. Optional hooks are NULL. */
typedef struct mneme_plugin {
  uint32_t struct_size;
  uint32_t flags;
  const char* id;      /* the same as in the note */
  const char* version; /* the same as in the note */
  const char* summary; /* one sentence with the mechanism's source */
  const mneme_option* options;
  uint32_t option_count;
  uint32_t option_stride;

  /* [any] Once, before the first create: the place to look up the host's function groups and keep the pointers. get_group gives NULL for an unknown id and for a group that the
   * note does not list. Optional. */
  mneme_status (*init)(const mneme_host* host, mneme_get_group_fn get_group, mneme_error* error);

  /* Makes an instance: reads options, resolves ops, declares parameters, slots, queues and kernels, fills `traits`. A pure function of its arguments. With MNEME_OK
   * *instance is not NULL. */
  mneme_status (*create)(const mneme_host* host, mneme_setup* setup, const mneme_model_info* model, mneme_tier_traits* traits, void** instance, mneme_error* error);
  void (*destroy)(void* instance);

  /* The hooks, in the order in which a segment calls them. */
  mneme_status (*begin)(void* instance, mneme_ctx* ctx, const mneme_segment* segment, mneme_riders* out, mneme_error* error);
  mneme_status (*absorb)(void* instance, mneme_ctx* ctx, const mneme_absorb* in, mneme_error* error);
  mneme_status (*context)(void* instance, mneme_ctx* ctx, const mneme_context* in, mneme_error* error);
  mneme_status (*ride)(void* instance, mneme_ctx* ctx, const mneme_ride* in, mneme_tensor* result, mneme_error* error);
  mneme_status (*read)(void* instance, mneme_ctx* ctx, const mneme_queries* in, mneme_read* out, mneme_error* error);
  mneme_status (*finish)(void* instance, mneme_ctx* ctx, const mneme_finish* in, mneme_error* error);

  /* Names of the auxiliary losses that hooks give to aux, under any options, separated by '|': "compression|gate". The host checks the manifest's weight.<name> against them and
   * refuses aux under another name. "" = the plugin gives none; NULL = not declared, names are then taken unchecked. */
  const char* losses;
} mneme_plugin;

/* ---- entry ------------------------------------------------------------------------------------------------------------------------------------------------- */

/* What the host offers. Valid during the call; `host` for the process's life. */
typedef struct mneme_host_offer {
  uint32_t struct_size;
  uint32_t flags;
  uint32_t abi_min;
  uint32_t abi_current;
  const mneme_host* host;
  mneme_get_group_fn get_group;
  const char* host_version;
} mneme_host_offer;

/* What the plugin answers. On a refusal `plugin` is NULL and `reason` says why, naming both ranges. */
typedef struct mneme_plugin_answer {
  uint32_t struct_size;
  uint32_t flags;
  uint32_t abi_min;
  uint32_t abi_target;
  uint32_t effective; /* min(host current, plugin target) */
  uint32_t reserved;
  const mneme_plugin* plugin;
  char reason[512];
} mneme_plugin_answer;

/* The one exported symbol. Pure: no allocation, CUDA, threads or logging; may be called again with the same result. */
#define MNEME_ENTRY_SYMBOL "mneme_negotiate_v1"
mneme_status mneme_negotiate_v1(const mneme_host_offer* offer, mneme_plugin_answer* answer);
typedef mneme_status (*mneme_negotiate_fn)(const mneme_host_offer* offer, mneme_plugin_answer* answer);

#define MNEME_EXPORT __attribute__((visibility("default")))

#ifdef __cplusplus
}
#endif

/* Appends text to a buffer of `size` bytes at `at`; returns the new end. Always NUL-terminated. */
static inline size_t mneme_sdk_append(char* buffer, size_t at, size_t size, const char* text) {
  while (*text != '\0' && at + 1 < size) {
    buffer[at++] = *text++;
  }
  buffer[at] = '\0';
  return at;
}

/* Appends "major.minor". */
static inline size_t mneme_sdk_append_version(char* buffer, size_t at, size_t size, uint32_t version) {
  const uint32_t parts[2] = {version >> 16, version & 0xFFFFu};
  int part = 0;
  for (part = 0; part < 2; ++part) {
    char digits[8] = {0};
    size_t n = 0;
    uint32_t rest = parts[part];
    char text[8] = {0};
    size_t i = 0;
    do {
      digits[n++] = "0123456789"[rest % 10u];
      rest /= 10u;
    } while (rest != 0u);
    for (i = 0; i < n; ++i) {
      text[i] = digits[n - 1 - i];
    }
    at = mneme_sdk_append(buffer, at, size, text);
    if (part == 0) {
      at = mneme_sdk_append(buffer, at, size, ".");
    }
  }
  return at;
}

/* Negotiates for a plugin: effective = min(host current, plugin target), refused when that is below either side's minimum. Nobody is refused for being newer. */
static inline mneme_status mneme_sdk_negotiate(const mneme_host_offer* offer, mneme_plugin_answer* answer, const mneme_plugin* plugin) {
  const uint32_t target = MNEME_ABI_VERSION;
  const uint32_t minimum = MNEME_ABI_VERSION;
  const uint32_t effective = offer->abi_current < target ? offer->abi_current : target;
  answer->abi_min = minimum;
  answer->abi_target = target;
  answer->effective = effective;
  if (effective < minimum || effective < offer->abi_min) {
    size_t at = mneme_sdk_append(answer->reason, 0, sizeof(answer->reason), "no common ABI version: the plugin speaks ");
    at = mneme_sdk_append_version(answer->reason, at, sizeof(answer->reason), minimum);
    at = mneme_sdk_append(answer->reason, at, sizeof(answer->reason), " to ");
    at = mneme_sdk_append_version(answer->reason, at, sizeof(answer->reason), target);
    at = mneme_sdk_append(answer->reason, at, sizeof(answer->reason), ", the host ");
    at = mneme_sdk_append_version(answer->reason, at, sizeof(answer->reason), offer->abi_min);
    at = mneme_sdk_append(answer->reason, at, sizeof(answer->reason), " to ");
    mneme_sdk_append_version(answer->reason, at, sizeof(answer->reason), offer->abi_current);
    answer->plugin = NULL;
    return MNEME_E_VERSION;
  }
  answer->plugin = plugin;
  return MNEME_OK;
}

/* Fills an error with file and line; returns `code`. */
static inline mneme_status mneme_sdk_fail(mneme_error* error, mneme_status code, const char* file, int32_t line, const char* message) {
  size_t i = 0;
  const char* base = file;
  if (error == NULL) {
    return code;
  }
  error->code = code;
  error->line = line;
  for (i = 0; file[i] != '\0'; ++i) {
    if (file[i] == '/') {
      base = file + i + 1;
    }
  }
  for (i = 0; base[i] != '\0' && i + 1 < sizeof(error->file); ++i) {
    error->file[i] = base[i];
  }
  error->file[i] = '\0';
  for (i = 0; message[i] != '\0' && i + 1 < sizeof(error->message); ++i) {
    error->message[i] = message[i];
  }
  error->message[i] = '\0';
  return code;
}
#define MNEME_FAIL(error, code, message) mneme_sdk_fail((error), (code), __FILE__, __LINE__, (message))

/* In one C file of a plugin: the entry symbol and the note, for a table `static const mneme_plugin table`. */
#define MNEME_PLUGIN_ENTRY(table, id_text, version_text, features_text)                                                   \
  MNEME_PLUGIN_NOTE(id_text, version_text, features_text);                                                                \
  MNEME_EXPORT mneme_status mneme_negotiate_v1(const mneme_host_offer* offer, mneme_plugin_answer* answer) {              \
    return mneme_sdk_negotiate(offer, answer, &(table));                                                                  \
  }                                                                                                                       \
  typedef int mneme_plugin_entry_needs_a_semicolon

#endif /* MNEME_PLUGIN_H_ */
