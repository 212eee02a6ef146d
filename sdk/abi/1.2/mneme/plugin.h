/* mneme/plugin.h: what a plugin is: the entry point, the table of its functions, and the hooks with
 * what they get and give. Includes the whole C ABI. Rules that hold for all of it, and the marks
 * [any], [setup], [hook], [layer hook] and [stage N], are in abi.h.
 *
 * Life of a plugin
 *   1. The host reads the note (note.h) from the file. No code of the plugin runs.
 *   2. It maps a private copy of the file and calls its one exported symbol, mneme_negotiate_v1.
 *   3. It calls `init`, once in the process.
 *   4. `create` makes any number of instances: one for a tier, or two where options have other
 *      values at evaluation. An instance holds configuration, ids of what it declared, and nothing
 *      that a hook changes; it serves any number of runs (training, validation, each generation).
 *   5. `destroy` ends an instance. The library stays mapped until the process ends.
 *
 * Stages of a segment: the points at which hooks run
 *
 *   stage                       runs                        hook
 *   1 begin                     once, before layer 0        begin
 *   2 absorb before reading     in each layer, before 3     absorb, of MNEME_ABSORB_BEFORE_READING
 *   3 context                   in each layer               context
 *   4 attention                 in each layer               none: the host's attention over
 *                                                           [context blocks; riders; tokens]
 *   5 ride                      in each layer, if riders    ride
 *   6 read                      in each layer, each site    read
 *   7 absorb after the segment  in each layer, at its end   absorb, of MNEME_ABSORB_AFTER_SEGMENT
 *   8 finish                    once, after the last layer  finish
 *
 *   Layers run in ascending order, each through stages 2 to 7; within a stage tiers run in stack
 *   order, a tier in the layers that it serves. So what a low layer's absorb writes into an object
 *   of the model is what higher layers see in the same segment; what they must not see is written
 *   in `finish`. After stage 8 the segment commits: all writes become the state together.
 *   In an open segment (generation; MNEME_SEGMENT_OPEN) stages 1, 2 and 5 run in the first step
 *   alone, stages 3, 4 and 6 in every step, and stages 7 and 8 once, at the close.
 *   In a layer whose attention a tier replaces (MNEME_TIER_REPLACES_ATTENTION) there is no stage 4,
 *   and that tier's `read` comes first in stage 6.
 *
 * What may be called at which stage
 *
 *   function                                                           create  1  2  3  5  6  7  8
 *   config.*, op.resolve, state.add_*, kernel.add                        x
 *   get_group, op.supports, log.write, parallel.run                      x     x  x  x  x  x  x  x
 *   op.call, kernel.call, tensor.*, random.*, probe.*, report.*,               x  x  x  x  x  x  x
 *     torch.*
 *   state.parameter, .slot_*, .counts_*, .queue_*                              m  x  x  x  x  x  m
 *   layer.norm, .project, .weight, .attention, .positions, .scale                 x  x  x  x  x
 *   layer.emit_block, .emit_token_bias                                               x
 *   layer.release                                                                 x     x     x
 *                                                                  m: objects of the model alone
 *
 * What a plugin may never do
 *   - keep what a hook computed, in the instance or in a static: reset, copy, save, swap and
 *     backward are the host's, so state lives in slots and queues;
 *   - let a hook's sequence of ops, or a shape, depend on anything but shapes, configuration and
 *     CPU counts: the host may recompute, capture or replay a hook;
 *   - let one lane's numbers depend on another lane: they equal those of that lane run alone;
 *   - draw random numbers from anywhere but mneme.random/1: runs must resume bit for bit;
 *   - start threads that outlive a call, use a thread_local with a destructor, atexit, a signal
 *     handler, setlocale or fork;
 *   - print, exit or abort: errors and log lines have their functions, and an exit inside a call
 *     ends the run with status 3 and the plugin's name;
 *   - export a second symbol, or link the host or LibTorch. The CUDA runtime is linked statically.
 *
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
#include "mneme/report.h"
#include "mneme/state.h"
#include "mneme/tensor.h"
#include "mneme/torch.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- create -------------------------------------------------------------------------------- */

/* This instance gets the values that the tier's keys eval_<option> give. */
#define MNEME_MODEL_EVALUATION 1u
/* Norm before attention (pre) instead of after (post). */
#define MNEME_MODEL_PRE_NORM 2u

/* The backbone as `create` sees it. Valid during the call. */
typedef struct mneme_model_info {
  uint32_t struct_size;
  uint32_t flags;        /* MNEME_MODEL_* */
  int64_t width;         /* D */
  int64_t heads;         /* H */
  int64_t head_width;    /* d */
  int64_t layers;        /* L */
  const int64_t* served; /* [served_count] layers that this tier serves, ascending */
  int64_t served_count;
  int64_t segment;        /* T of the run (of evaluation when MNEME_MODEL_EVALUATION) */
  int64_t bptt_segments;  /* segments that a THROUGH slot keeps its graph */
  const char* position;   /* model.position: "relative", "disentangled", "rotary", "alibi", ... */
  uint32_t compute_dtype; /* MNEME_F64, MNEME_F32 or MNEME_BF16 */
  uint32_t reserved;
  double attention_dropout; /* of the backbone's attention, in training */
  int64_t kv_heads; /* G, heads of keys and values; divides H. See MNEME_TIER_GROUPED_KEYS */
} mneme_model_info;

/* When `absorb` runs. */
enum {
  MNEME_ABSORB_NEVER = 0,
  MNEME_ABSORB_BEFORE_READING = 1, /* stage 2, with the rows that wait since the last segment */
  MNEME_ABSORB_AFTER_SEGMENT = 2   /* stage 7 */
};

/* Sites of `read`. */
#define MNEME_SITE_HEADS 1u /* before the output projection; results [B,T,H,d] */
#define MNEME_SITE_OUT 2u   /* after it, before dropout and residual; results [B,T,D] */

/* Inputs of hooks that a tier asks for. Others are 0, and neither kept nor computed. */
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
#define MNEME_WANT_READ_NORMED ((uint64_t)1 << 23) /* since 1.2 */
#define MNEME_WANT_FINISH_TOP ((uint64_t)1 << 32)
#define MNEME_WANT_FINISH_LAYERS ((uint64_t)1 << 33)
#define MNEME_WANT_FINISH_TARGETS ((uint64_t)1 << 34)
#define MNEME_WANT_FINISH_LOGP ((uint64_t)1 << 35)
#define MNEME_WANT_FINISH_RIDERS ((uint64_t)1 << 36)

#define MNEME_TIER_RELEASES 1u   /* calls release(): later tiers are fed by it */
#define MNEME_TIER_RIDERS 2u     /* `begin` gives riders, `ride` serves them */
#define MNEME_TIER_TOKEN_BIAS 4u /* `context` may emit a bias on token columns */
/* The same losses however a text is cut into segments, as long as no row is dropped. */
#define MNEME_TIER_CUT_INVARIANT 8u
/* The tier takes keys and values with the heads that the layer has of them,
 * mneme_model_info.kv_heads, G: wherever this header and layer.h say H of keys, values and their
 * weights, it gets and gives G, and head h of the queries goes with head h / (H / G). Without the
 * flag it gets those of every head of the queries, in copies where heads share them. */
#define MNEME_TIER_GROUPED_KEYS 16u
/* Since 1.2. The tier replaces the attention of the layers that it serves: the result of its `read`
 * is the layer's, before dropout, residual sum and feed-forward.
 *   Computed   Stage 4 is left out: there are no scores, z, lse or mass, and no keys are kept. Of
 *              the layer's projections the host has those that `wants` names (MNEME_WANT_READ_Q, K,
 *              V, MNEME_WANT_ABSORB_Q, K, V), and computes no others: q [B,T,H,key_width], k
 *              [B,T,H,key_width], v [B,T,H,value_width], with the model's biases and norms of
 *              heads; G in place of H with MNEME_TIER_GROUPED_KEYS. Parameters of projections that
 *              are not named, of positions and of their biases do not exist in the layer.
 *   Open       In every step of an open segment k and v of `read` are those of the step's tokens
 *              alone. `absorb` gets q, k and v of the whole segment at its close, if it wants them.
 *   Site       traits.sites names one site. HEADS: the result is [B,T,H,value_width] or
 *              [B,T,H*value_width], and the host's output projection, [D,H*value_width], follows.
 *              OUT: it is [B,T,D], and the layer has no output projection.
 *   Merge      `read` gives MNEME_MERGE_REPLACE in every call; another merge is
 *              MNEME_E_INVALID_ARGUMENT. Padding has a result as other tokens do.
 *   Layer      mneme_layer_api.norm and .scale (1 / sqrt(key_width)) work as ever; project and
 *              weight give MNEME_E_UNSUPPORTED for what the layer does not have; attention and
 *              positions always do.
 *   Others     Another tier in the layer may absorb rows, and read at OUT with the layer's input
 *              and `projected`, this tier's result behind the host's output projection, if any.
 *   Refused    Of this tier: `context`, riders, both sites or none, other inputs of the attention.
 *              Of a stack, naming both tiers: two that replace the attention of one layer; in such
 *              a layer another tier with `context` or riders, that reads at HEADS, as all do that
 *              merge by LSE, or that wants q, k, v, z, lse or mass of the attention. */
#define MNEME_TIER_REPLACES_ATTENTION 32u

/* What an instance is, filled by `create`. */
typedef struct mneme_tier_traits {
  uint32_t struct_size;
  uint32_t flags;  /* MNEME_TIER_* */
  uint64_t wants;  /* MNEME_WANT_* */
  uint32_t absorb; /* MNEME_ABSORB_*, not NEVER exactly when the table has `absorb` */
  uint32_t sites;  /* MNEME_SITE_*, not 0 exactly when the table has `read` */
  /* Most rows that `context` emits for a layer, riders included; 0 = none. The host holds the tier
   * to it: windows (model.same_length), estimates of memory and reports count on it. */
  int64_t context_rows;
  int64_t max_segment; /* longest segment that the tier can serve, 0 = any */
  /* Most rows of queues that `read` looks at in a layer, as a kNN memory does, beside those of
   * `context`; the host holds the tier to it, and reports add it to context_rows. 0 = not declared:
   * reports give the most rows that `read` was seen to get. */
  int64_t read_rows;
  /* Since 1.2, with MNEME_TIER_REPLACES_ATTENTION alone: widths of a head of queries and keys, and
   * of values and the result at HEADS. 0 = mneme_model_info.head_width. */
  int64_t key_width;
  int64_t value_width;
} mneme_tier_traits;

/* ---- what hooks get and give --------------------------------------------------------------- */

#define MNEME_SEGMENT_TRAINING 1u
#define MNEME_SEGMENT_ANY_RESET 2u
/* Generation: the segment grows step by step. In a step `length` is the number of new tokens, which
 * are the queries, and the keys are all `offset` + `length` tokens so far. `valid_count` counts the
 * step's tokens, so it is `length` in each lane; `tokens`, `reset` and `reset_mask` are those of
 * the segment in each step. At the close (stages 7 and 8) hooks see the whole segment, with all its
 * tokens, offset 0 and without this flag. */
#define MNEME_SEGMENT_OPEN 4u
/* Training, but this segment only fills the memory: no gradient, and auxiliary losses are not
 * looked at. */
#define MNEME_SEGMENT_NO_LOSS 8u

/* The segment, part of every hook's input. Valid during the hook, which may not write into it. */
typedef struct mneme_segment {
  uint32_t struct_size;
  uint32_t flags;             /* MNEME_SEGMENT_* */
  int64_t index;              /* segments since the run's start */
  int64_t lanes;              /* B */
  int64_t length;             /* T, padding included */
  int64_t previous_length;    /* T of the segment before, 0 at the run's start */
  int64_t layers;             /* L */
  int64_t offset;             /* tokens of an open segment before this step, else 0 */
  const int64_t* tokens;      /* [B] tokens of each lane since it started afresh, before this
                                 segment, padding not counted */
  const int64_t* valid_count; /* [B] of `length`, tokens of each lane that are no padding */
  const uint8_t* reset;       /* [B] 1 = this lane starts afresh with this segment; at a run's
                                 start all do */
  mneme_tensor valid;         /* [B,T] bool, 0 = no padding anywhere */
  mneme_tensor reset_mask;    /* [B] bool, 0 = no lane starts afresh */
  uint32_t compute_dtype;     /* of x, hidden rows, q, k, v and z */
  uint32_t device_type;       /* MNEME_DEVICE_* */
} mneme_segment;

/* begin: riders to fill, or nothing. */
typedef struct mneme_riders {
  uint32_t struct_size;
  uint32_t flags;
  mneme_tensor rows;  /* [B,M,D] as embedded: after embedding scale and dropout; 0 = none */
  mneme_tensor valid; /* [B,M] bool, 0 = all. A rider that a lane lacks takes no place in it */
  /* The first `unseen` riders are seen by no token: the tokens attend to the others alone. They
   * take no place, and may attend to tokens. */
  int64_t unseen;
} mneme_riders;

/* `rows` are this very segment's tokens: row i is token i of x, and column R+i of `mass`. */
#define MNEME_ABSORBS_OWN_SEGMENT 1u

/* absorb. Tensors but for those of `rows` are 0 unless wanted; z .. context_v exist at stage 7
 * alone. */
typedef struct mneme_absorb {
  uint32_t struct_size;
  uint32_t flags; /* MNEME_ABSORBS_OWN_SEGMENT */
  const mneme_segment* segment;
  int64_t layer;
  /* What the tier absorbs: detached, HIDDEN, at least one row. The segment's own rows are invalid
   * where segment->valid says padding (of the segment before at stage 2), so rows->valid is 0 in a
   * segment without padding; released rows are as valid as their tier gave them, and may be invalid
   * in some lanes in any segment. An invalid row holds numbers of no meaning. */
  const mneme_rows* rows;
  mneme_tensor x;   /* [B,T,D] this layer's input in this segment, in the graph */
  mneme_tensor z;   /* [B,T,H,d] local attention's result, in the graph */
  mneme_tensor lse; /* [B,H,T] */
  mneme_tensor q;   /* [B,T,H,d] without position terms or biases, in the graph; k, v too */
  mneme_tensor k;
  mneme_tensor v;
  /* [B,R+T] f32, detached: attention mass of each key column, summed over heads and valid queries,
   * before dropout: this tier's own blocks first to last, then tokens. Divide by H * valid_count[b]
   * for the mean. In an open segment all steps must emit the same number of rows. */
  mneme_tensor mass;
  int64_t mass_rows;      /* R: how many of the columns are this tier's */
  mneme_tensor context_k; /* [B,R,H,d], detached: keys of this tier's own blocks, first to last,
                             before position terms; 0 when it emitted none */
  mneme_tensor context_v; /* likewise */
} mneme_absorb;

/* context. Blocks are emitted with mneme_layer_api. */
typedef struct mneme_context {
  uint32_t struct_size;
  uint32_t flags;
  const mneme_segment* segment;
  int64_t layer;
  mneme_tensor x; /* [B,T,D] the layer's input, in the graph */
} mneme_context;

/* ride: attention of the riders. */
typedef struct mneme_ride {
  uint32_t struct_size;
  uint32_t flags;
  const mneme_segment* segment;
  int64_t layer;
  int64_t riders;        /* M */
  mneme_tensor q_riders; /* [B,M,H,d] */
  mneme_tensor k;        /* [B,M+T,H,d] riders' keys, then tokens', without position terms; v too */
  mneme_tensor v;
  mneme_tensor valid;  /* [B,M+T] bool, 0 = all */
  mneme_tensor hidden; /* [B,M,D] the riders' input of this layer */
  int32_t is_last;     /* 1 in the last layer, unless finish gets the riders: what they become
                          there reaches nothing */
  uint32_t reserved;
} mneme_ride;

/* How a read result joins the local one. At a site all LSE results join first, in one softmax with
 * the local one; the others follow in stack order. Results are cast to the local one's dtype. */
enum {
  MNEME_MERGE_NONE = 0,   /* nothing this time */
  MNEME_MERGE_ADD = 1,    /* local + out */
  MNEME_MERGE_GATE = 2,   /* a*out + (1-a)*local; where a = 0 out is not looked at */
  MNEME_MERGE_LSE = 3,    /* HEADS alone: exact joint softmax with the extra keys that out and lse
                             summarise; where lse = -inf out is not looked at */
  MNEME_MERGE_REPLACE = 4 /* out */
};

/* read: queries in. Tensors are 0 unless wanted. */
typedef struct mneme_queries {
  uint32_t struct_size;
  uint32_t flags;
  const mneme_segment* segment;
  int64_t layer;
  uint32_t site; /* MNEME_SITE_*, one of them */
  uint32_t reserved;
  mneme_tensor q; /* [B,T,H,d] token rows, without position terms or biases */
  mneme_tensor k; /* [B,offset+T,H,d] likewise: all tokens so far; v too */
  mneme_tensor v;
  mneme_tensor z;         /* [B,T,H,d] local attention's result */
  mneme_tensor lse;       /* [B,H,T] */
  mneme_tensor projected; /* [B,T,D] at MNEME_SITE_OUT: the projected local result */
  mneme_tensor x;         /* [B,T,D] the layer's input */
  mneme_tensor normed;    /* since 1.2: [B,T,D] the projections' input, x behind the norm before
                             attention; x itself in a post-norm layer. In the compute dtype */
} mneme_queries;

/* read: result out. */
typedef struct mneme_read {
  uint32_t struct_size;
  uint32_t flags;
  uint32_t merge; /* MNEME_MERGE_* */
  uint32_t reserved;
  mneme_tensor out;  /* HEADS [B,T,H,d] or [B,T,H*d]; OUT [B,T,D]; B and T may be 1 */
  mneme_tensor gate; /* GATE: a, broadcastable to out's whole shape */
  mneme_tensor lse;  /* LSE: [B,H,T]; -inf = this query reads nothing */
} mneme_read;

/* finish. Tensors are 0 unless wanted; targets and logp are 0 where there are no targets, as at the
 * close of an open segment. */
typedef struct mneme_finish {
  uint32_t struct_size;
  uint32_t flags;
  const mneme_segment* segment;
  mneme_tensor top;           /* [B,T,D] the last layer's output */
  mneme_tensor targets;       /* [B,T] i64; -1 = no target */
  mneme_tensor logp;          /* [B,T] log-probability of the target, 0 without one */
  const mneme_tensor* layers; /* [L] outputs of all layers, [B,T,D] each; NULL unless wanted */
  mneme_tensor riders;        /* [B,M,D] the last layer's output of the riders; 0 without any */
} mneme_finish;

/* ---- the plugin's table -------------------------------------------------------------------- */

/* [any] The function group called `id`: "mneme.op/1" gives a mneme_op_api. NULL when this host does
 * not have it, and when the plugin's note does not list it. `host` is the plugin's own: what `init`
 * got. The group is the host's, valid for the process's life. As every struct it may grow at its
 * end: a plugin that also runs on older hosts looks at struct_size. A function that changes is in a
 * new revision of the group, and the old one stays. */
typedef const void* (*mneme_get_group_fn)(const mneme_host* host, const char* id);

/* The table. Valid for the process's life; the host refuses a plugin whose table is not as said
 * here. create, destroy and at least one hook are required; others are NULL when there are none.
 *
 * For every function of the table
 *   Arguments  The structs and handles that the host passes are its own, and valid until the
 *              function returns. What the plugin fills it fills before it returns.
 *   Errors     Any status but MNEME_OK with a text in `error`, which is not NULL. The host adds
 *              where the call was and ends the command with exit status 3.
 * For every hook
 *   Thread     Hooks of one tier are called one at a time, each by any thread; there is no main
 *              thread.
 *   Autograd   Ops and kernels run under the host's autograd. In evaluation, and with
 *              MNEME_SEGMENT_NO_LOSS, nothing has a gradient.
 *   Errors     The segment is dropped: slots, queues, waiting rows and draws are as before it. What
 *              a hook gives is checked when it returns: what does not fit ends the command as an
 *              error of its own does, with the code named below.
 *   Wanted     Inputs that mneme_tier_traits.wants does not ask for are 0. */
typedef struct mneme_plugin {
  uint32_t struct_size;
  uint32_t flags;
  const char* id;              /* the same as in the note */
  const char* version;         /* the same as in the note */
  const char* summary;         /* one sentence with the mechanism's source, or NULL */
  const mneme_option* options; /* the schema; an array of option_count, option_stride bytes apart */
  uint32_t option_count;
  uint32_t option_stride;

  /* [any thread] The place to look up the host's function groups and keep the pointers. Optional.
   *   When      Once in the process, before the first `create`; again after it has failed.
   *   May call  get_group, and functions marked [any].
   *   Errors    The plugin is not loaded. */
  mneme_status (*init)(const mneme_host* host, mneme_get_group_fn get_group, mneme_error* error);

  /* [any thread] Makes an instance: reads options, resolves ops, declares parameters, slots, queues
   * and kernels, fills `traits`. A pure function of its arguments. Required.
   *   When      When a tier is set up: in a run, and in commands that only describe or check one.
   *   May call  Functions marked [setup] or [any].
   *   Gets      `model`; `traits`, zeroed.
   *   Gives     *instance, not NULL (a memory without anything to keep gives the address of a
   *             static variable); it is the plugin's until `destroy`. The second instance of a
   *             tier, for evaluation, declares the same parameters.
   *   Errors    No instance was made, and `destroy` is not called. Traits are refused, and the
   *             instance destroyed, when: absorb or sites do not agree with the hooks; absorb is
   *             BEFORE_READING and wants names an input of stage 7 alone; MNEME_TIER_RIDERS comes
   *             without `begin` and `ride`; a size is negative; a bit or value is not defined. The
   *             stack is refused when two of its tiers have riders, and when the longest segment is
   *             above max_segment. */
  mneme_status (*create)(const mneme_host* host, mneme_setup* setup, const mneme_model_info* model,
                         mneme_tier_traits* traits, void** instance, mneme_error* error);

  /* [any thread] Frees an instance. Required.
   *   When      Once for each instance, when no run and no graph needs it any more.
   *   May call  Functions marked [any].
   *   Errors    Cannot fail. An exception that leaves it is logged. */
  void (*destroy)(void* instance);

  /* [stage 1] Begins a segment: gives riders, writes state of the model. Optional.
   *   When      Once a segment, before layer 0; in an open segment with its first step.
   *   May call  [hook] functions, with objects of the model alone.
   *   Gets      `segment`; `out`, zeroed.
   *   Gives     out->rows [B,M,D], out->valid [B,M] and out->unseen, or nothing. Riders need
   *             MNEME_TIER_RIDERS; those that tokens see count towards context_rows. They are
   *             before the tokens in every layer, and pass projections, norms and feed-forward with
   *             them: layer 0 gets [B,M+T,D]. The host takes references of its own and casts to the
   *             layers' dtype.
   *   Errors    MNEME_E_STATE for riders without the flag; MNEME_E_SHAPE; MNEME_E_DTYPE;
   *             MNEME_E_INVALID_ARGUMENT for more than context_rows, or `unseen` outside 0 to M. */
  mneme_status (*begin)(void* instance, mneme_ctx* ctx, const mneme_segment* segment,
                        mneme_riders* out, mneme_error* error);

  /* [stages 2, 7] Takes rows into memory. Optional.
   *   When      Once in each layer served, at stage 2 or 7 as mneme_tier_traits.absorb says, if
   *             there are rows for it.
   *   May call  [layer hook] and [hook] functions, and mneme_layer_api.release.
   *   Gets      in->rows: with feed = "released" (the default) what the nearest earlier tier with
   *             MNEME_TIER_RELEASES has let go in this layer since the last absorb, or the
   *             segment's own rows where no earlier tier has that flag; with feed = "segment"
   *             always the segment's own. They are detached. At stage 7 the segment's rows are the
   *             ones just computed; at stage 2 those of the segment before, which the host keeps
   *             waiting (state of the run: reset, saved and counted with it).
   *   Gives     Writes of slots and queues. At stage 2 they are in this segment's graph, so that
   *             what is written now and read at stage 6 is trained by this segment's loss. */
  mneme_status (*absorb)(void* instance, mneme_ctx* ctx, const mneme_absorb* in,
                         mneme_error* error);

  /* [stage 3] Emits rows that the layer's tokens attend to. Optional.
   *   When      Once in each layer served, before its projections; in an open segment in every
   *             step.
   *   May call  [layer hook] and [hook] functions, emit_block and emit_token_bias.
   *   Gets      in->x, wanted or not.
   *   Gives     Blocks, whose rows the host takes through norm and projection (HIDDEN), projection
   *             (NORMED) or neither (KV, in the compute dtype).
   *   Errors    MNEME_E_INVALID_ARGUMENT for more than context_rows, riders included. */
  mneme_status (*context)(void* instance, mneme_ctx* ctx, const mneme_context* in,
                          mneme_error* error);

  /* [stage 5] Computes the attention of the riders, which the tier gave in `begin`. Optional.
   *   When      Once in each layer, after the tokens' attention, in segments with riders; in an
   *             open segment in its first step. The tier must serve every layer.
   *   May call  [layer hook] and [hook] functions, and mneme_layer_api.release.
   *   Gets      in: no input needs to be wanted.
   *   Gives     *result [B,M,H,d]: what attention gives for the riders. The layer's output
   *             projection, residual, norms and feed-forward follow. Where in->is_last it may be 0.
   *   Errors    MNEME_E_INVALID_ARGUMENT for 0 elsewhere; MNEME_E_SHAPE. */
  mneme_status (*ride)(void* instance, mneme_ctx* ctx, const mneme_ride* in, mneme_tensor* result,
                       mneme_error* error);

  /* [stage 6] Reads memory for the layer's tokens. Optional.
   *   When      Once in each layer served and for each site of mneme_tier_traits.sites, HEADS
   *             before OUT, after the layer's attention; in an open segment in every step.
   *   May call  [layer hook] and [hook] functions.
   *   Gets      `in`; `out`, zeroed, which says MNEME_MERGE_NONE.
   *   Gives     out->merge, and the tensors that it needs; the host takes references of its own.
   *   Errors    MNEME_E_SHAPE; MNEME_E_INVALID_ARGUMENT for LSE at OUT, a tensor that `merge` needs
   *             and that is 0, an unknown merge, or when the queues that it looked at hold more
   *             than read_rows. */
  mneme_status (*read)(void* instance, mneme_ctx* ctx, const mneme_queries* in, mneme_read* out,
                       mneme_error* error);

  /* [stage 8] Sees the whole segment's results. Optional.
   *   When      Once a segment, after the last layer and before the commit; in an open segment at
   *             its close. With MNEME_WANT_FINISH_RIDERS the close of an open segment forgets its
   *             steps and runs it again from stage 1, as a closed one, so that riders have passed
   *             with all its tokens.
   *   May call  [hook] functions, with objects of the model alone.
   *   Gets      in: `top`, `logp` and `riders` are in the graph.
   *   Gives     Writes of the model's slots and queues, auxiliary losses, metrics. */
  mneme_status (*finish)(void* instance, mneme_ctx* ctx, const mneme_finish* in,
                         mneme_error* error);

  /* Names of the auxiliary losses that hooks give to aux, under any options, separated by '|':
   * "compression|gate". The host checks the tier's keys weight.<name> against them and refuses aux
   * under another name. "" = the plugin gives none; NULL = not declared, names are taken
   * unchecked. */
  const char* losses;
} mneme_plugin;

/* ---- entry --------------------------------------------------------------------------------- */

/* What the host offers. Valid during the call; `host` for the process's life. */
typedef struct mneme_host_offer {
  uint32_t struct_size;
  uint32_t flags;
  uint32_t abi_min;     /* the oldest ABI version that the host speaks */
  uint32_t abi_current; /* the newest */
  const mneme_host* host;
  mneme_get_group_fn get_group;
  const char* host_version;
} mneme_host_offer;

/* What the plugin answers. abi_min and abi_target are those of its note. On a refusal `plugin` is
 * NULL and `reason` says why, naming both ranges. */
typedef struct mneme_plugin_answer {
  uint32_t struct_size;
  uint32_t flags;
  uint32_t abi_min;
  uint32_t abi_target;
  uint32_t effective; /* min(host's current, plugin's target) */
  uint32_t reserved;
  const mneme_plugin* plugin;
  char reason[512]; /* ends in NUL */
} mneme_plugin_answer;

/* [any thread] The one exported symbol: agrees on an ABI version and gives the table. A pure
 * function of the offer: no allocation, no CUDA, no threads, no log. (MNEME_PLUGIN_ENTRY of
 * mneme/sdk.h defines it, with the note, for plugins in C.)
 *   When      Before any other function; may be called again, with the same result.
 *   Versions  The effective one is min(host's current, plugin's target), and refused when it lies
 *             below either side's minimum: nobody is refused for being newer.
 *   Gives     `answer`, which the host has zeroed but for struct_size.
 *   Errors    MNEME_E_VERSION, with a reason. The plugin is not loaded, nor when the answer does
 *             not agree with the note or this header. */
mneme_status mneme_negotiate_v1(const mneme_host_offer* offer, mneme_plugin_answer* answer);
typedef mneme_status (*mneme_negotiate_fn)(const mneme_host_offer* offer,
                                           mneme_plugin_answer* answer);
#define MNEME_ENTRY_SYMBOL "mneme_negotiate_v1"

#ifdef __cplusplus
}
#endif
#endif /* MNEME_PLUGIN_H_ */
