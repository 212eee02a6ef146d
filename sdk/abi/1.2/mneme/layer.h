/* mneme/layer.h: group "mneme.layer/1", what the current layer of the backbone does for a hook:
 * context blocks, norm, projections, weights, attention; and rows, losses and metrics that a hook
 * hands on. Functions marked [layer hook] give MNEME_E_STATE in `begin` and `finish`. */
#ifndef MNEME_LAYER_H_
#define MNEME_LAYER_H_

#include "mneme/abi.h"
#include "mneme/state.h"

#ifdef __cplusplus
extern "C" {
#endif

#define MNEME_GROUP_LAYER "mneme.layer/1"

/* ---- context blocks ------------------------------------------------------------------------ */

/* The places of a context block's rows. Distances count back from the segment's first token, which
 * has distance 0: the row just before it has 1. */
enum {
  /* By place: farther away than the blocks that the tier emits after it, oldest row first; blocks
   * of later tiers lie farther away still. Rows that a lane does not have (invalid ones) take no
   * place in it, nor do blocks of the other kinds. */
  MNEME_POSITION_PLACE = 0,
  /* mneme_block.distance holds each row's distance. */
  MNEME_POSITION_EXPLICIT = 1,
  /* No position term: the score is the content term alone. */
  MNEME_POSITION_NONE = 2
};

/* A context block: rows that every token of the segment may attend to. An invalid row has
 * probability and gradient exactly 0. */
typedef struct mneme_block {
  uint32_t struct_size;
  uint32_t flags;
  uint32_t position_kind; /* MNEME_POSITION_* */
  uint32_t reserved;
  /* != 0: the whole content of this queue; `rows` is ignored. In evaluation the host keeps the keys
   * and values of its blocks until the weights change. */
  mneme_queue queue;
  uint32_t reserved2;
  const mneme_rows* rows; /* of any kind; gradients flow back into them. NULL with a queue */
  /* EXPLICIT: i64, with a queue over all its rows. [B|1, m]: distance to the segment's first token;
   * token i is i places farther away. [B|1, T|1, m]: distance to each token itself, for a row that
   * is at one distance from every token, say; costs O(T m D), so it is for few rows. */
  mneme_tensor distance;
  /* [B|1, H|1, T|1, m] added to the scores, differentiable; 0 = none. -inf = absent: probability
   * and gradient are exactly 0. In any dtype but bool: the host casts it to the dtype of the
   * scores, f64 in f64 runs and f32 otherwise. */
  mneme_tensor bias;
} mneme_block;

/* ---- norm, projections, weights, positions ------------------------------------------------- */

/* Which projection of the layer. */
enum { MNEME_PROJECT_Q = 1, MNEME_PROJECT_K = 2, MNEME_PROJECT_V = 3, MNEME_PROJECT_O = 4 };

/* Weights of the layer, as the layer uses them: f32, f64 in f64 runs. */
enum {
  MNEME_WEIGHT_Q = 1, /* [H*d, D]; K and V likewise */
  MNEME_WEIGHT_K = 2,
  MNEME_WEIGHT_V = 3,
  MNEME_WEIGHT_O = 4,            /* [D, H*d] */
  MNEME_WEIGHT_NORM = 5,         /* [D], the norm before (pre) or after (post) attention */
  MNEME_WEIGHT_NORM_BIAS = 6,    /* [D]; an RMS norm has none */
  MNEME_WEIGHT_CONTENT_BIAS = 7, /* [H,d], u of the relative schemes: model.position "relative" or
                                    "disentangled" */
  MNEME_WEIGHT_POSITION_BIAS = 8 /* [H,d], their v */
};

/* norm, project, weight: the layer's weights are read as constants; gradients reach the rows. */
#define MNEME_NO_WEIGHT_GRADIENT 1u

/* positions: offsets keep their sign: R of minus the offset. Without it R of the distance
 * |offset|. */
#define MNEME_POSITIONS_SIGNED 1u

/* ---- attention ----------------------------------------------------------------------------- */

enum {
  MNEME_MASK_CAUSAL = 0, /* keys at or before the query */
  MNEME_MASK_FULL = 1,
  /* Keys from query - window_before to query + window_after, of those from first_key on. */
  MNEME_MASK_WINDOW = 2
};

/* The layer's whole position scheme, on distances |query - key|: in the relative schemes u, v and
 * the projected table; under rotary positions queries and keys turn by their places. */
#define MNEME_ATTENTION_POSITIONS 1u
/* The content bias u of the relative schemes alone: (q + u).k. */
#define MNEME_ATTENTION_CONTENT_BIAS 2u
/* The layer's attention dropout, in training, on the probabilities that form z; never on lse. */
#define MNEME_ATTENTION_DROPOUT 4u

/* One call of the backbone's own attention. Key j is at place j, query i at place query_offset + i.
 * Without flags a score is the scaled q.k. q, k and v have one dtype. */
typedef struct mneme_attention {
  uint32_t struct_size;
  uint32_t flags; /* MNEME_ATTENTION_* */
  mneme_tensor q; /* [B,Tq,H,d], without position biases */
  mneme_tensor k; /* [B,K,H,d] */
  mneme_tensor v; /* [B,K,H,d] */
  uint32_t mask;  /* MNEME_MASK_* */
  uint32_t reserved;
  int64_t query_offset;
  int64_t window_before; /* MNEME_MASK_WINDOW; -1 = strictly after the query */
  int64_t window_after;
  int64_t first_key;          /* MNEME_MASK_WINDOW: keys [first_key, first_key + key_count) alone */
  int64_t key_count;          /* 0 = all from first_key on */
  mneme_tensor key_valid;     /* [B,K] bool, 0 = all */
  mneme_tensor bias;          /* [B|1,H|1,Tq|1,K] added to the scaled scores, in any dtype
                                 but bool, 0 = none */
  mneme_tensor content_bias;  /* [H,d] in place of the layer's u, 0 = the layer's */
  mneme_tensor position_bias; /* [H,d] in place of the layer's v, 0 = the layer's */
  /* One extra key a query: its logit, already scaled, [B,H,Tq] in f32 or f64, and its value
   * [B,Tq,H,d]. Both or neither; 0 = none. */
  mneme_tensor virtual_logit;
  mneme_tensor virtual_value;
  double scale; /* 0 = the layer's (mneme_layer_api.scale) */
} mneme_attention;

/* ---- functions ----------------------------------------------------------------------------- */

typedef struct mneme_layer_api {
  uint32_t struct_size;
  uint32_t flags;

  /* [stage 3] Emits a block for the layer's attention. Blocks of one tier are in the order of the
   * calls, oldest first; a block without rows is nothing. With all blocks of the hook, and the
   * tier's riders, at most mneme_tier_traits.context_rows rows; the host checks it when the hook
   * returns. The host takes references of its own: what is popped afterwards stays in the context.
   * Errors: MNEME_E_STATE outside `context`; those of rows (state.h);
   *   MNEME_E_INVALID_ARGUMENT  no such queue; neither queue nor rows; EXPLICIT without distance
   *   MNEME_E_SHAPE             bias or distance
   *   MNEME_E_DTYPE             distance that is not i64; a bias of bool */
  mneme_status (*emit_block)(mneme_ctx* ctx, const mneme_block* block, mneme_error* error);

  /* [stage 3] Adds a bias to the scores of the token columns, [B|1, H|1, T|1, offset+T] (offset: 0
   * but in open segments), differentiable; biases of calls and of tiers add up. Dtypes: as
   * mneme_block.bias.
   * Errors: MNEME_E_STATE outside `context`, or without MNEME_TIER_TOKEN_BIAS; MNEME_E_SHAPE;
   * MNEME_E_DTYPE for bool. */
  mneme_status (*emit_token_bias)(mneme_ctx* ctx, mneme_tensor bias, mneme_error* error);

  /* [layer hook] The norm before attention, exactly as the layer does it; identity in a post-norm
   * layer. rows [B,m,D] -> [B,m,D] in the rows' dtype. *out carries one reference.
   * flags: MNEME_NO_WEIGHT_GRADIENT. */
  mneme_status (*norm)(mneme_ctx* ctx, mneme_tensor rows, uint32_t flags, mneme_tensor* out,
                       mneme_error* error);

  /* [layer hook] One of the layer's projections. Q, K, V: normed rows [B,m,D] -> [B,m,H,d]; O:
   * [B,m,H,d] -> [B,m,D]; in the compute dtype. With the layer's biases and, where it has them, its
   * norms of queries and keys; positions are not in them. *out carries one reference.
   * which: MNEME_PROJECT_*. flags: MNEME_NO_WEIGHT_GRADIENT.
   * Errors: MNEME_E_INVALID_ARGUMENT for another `which`, or rows that do not fit;
   * MNEME_E_UNSUPPORTED for a projection that the layer does not have, because a tier replaces its
   * attention (MNEME_TIER_REPLACES_ATTENTION; widths of heads are that tier's). */
  mneme_status (*project)(mneme_ctx* ctx, uint32_t which, mneme_tensor rows, uint32_t flags,
                          mneme_tensor* out, mneme_error* error);

  /* [layer hook] A weight itself, with gradient in training. Borrowed.
   * which: MNEME_WEIGHT_*. flags: MNEME_NO_WEIGHT_GRADIENT.
   * Errors: MNEME_E_INVALID_ARGUMENT for another `which`; MNEME_E_UNSUPPORTED for the biases under
   * a position scheme without them, for the bias of a norm that has none, and as project. */
  mneme_status (*weight)(mneme_ctx* ctx, uint32_t which, uint32_t flags, mneme_tensor* out,
                         mneme_error* error);

  /* [layer hook] Attention: z [B,Tq,H,d] and lse [B,H,Tq], the log-sum-exp of the scaled, masked
   * scores before dropout, each with one reference, both differentiable. A query without keys gives
   * z = 0, lse = -inf. z comes in virtual_value's dtype when that is given (f32 keeps a carried
   * value from being rounded again and again), else in v's; lse in f32 at least.
   * Errors: MNEME_E_SHAPE; MNEME_E_DTYPE for a bias of bool; MNEME_E_UNSUPPORTED in a layer whose
   * attention a tier replaces;
   *   MNEME_E_INVALID_ARGUMENT  q, k, v of several dtypes; half a virtual key; first_key or
   *                             key_count beyond the keys; content_bias or position_bias under
   *                             another scheme than the relative ones */
  mneme_status (*attention)(mneme_ctx* ctx, const mneme_attention* call, mneme_tensor* z,
                            mneme_tensor* lse, mneme_error* error);

  /* [stages 2, 5, 7] Lets rows of kind MNEME_ROWS_HIDDEN go. They are detached and, when the hook
   * has returned, appended to the waiting rows of this layer of every later tier that this one
   * feeds (mneme_plugin.absorb says which). Rows that nobody receives are dropped, and a call
   * without rows does nothing.
   * Errors: MNEME_E_STATE in other hooks, or without MNEME_TIER_RELEASES; those of rows;
   * MNEME_E_INVALID_ARGUMENT for another kind. */
  mneme_status (*release)(mneme_ctx* ctx, const mneme_rows* rows, mneme_error* error);

  /* [layer hook] Projected positions of the relative schemes, [H,count,d] in the compute dtype: row
   * r is the layer's projection of the sinusoids for offset least + r, where an offset o means a
   * key o places after its query. The term of a score is (q + v).row, scaled as q.k. In the layer's
   * graph, dropout and model.clamp_distance included. *out carries one reference.
   * flags: MNEME_POSITIONS_SIGNED.
   * Errors: MNEME_E_UNSUPPORTED under other schemes, and in a layer whose attention a tier
   * replaces; MNEME_E_INVALID_ARGUMENT for count < 1. */
  mneme_status (*positions)(mneme_ctx* ctx, int64_t least, int64_t count, uint32_t flags,
                            mneme_tensor* out, mneme_error* error);

  /* [layer hook] What the layer multiplies q.k by: 1/sqrt(d), less with model.scale_by_layer, times
   * the square of YaRN's factor under rotary positions with it. Where a tier replaces the attention
   * it is 1/sqrt(key_width), less with model.scale_by_layer. A memory that makes scores of its own
   * from the layer's queries and keys takes this number. */
  mneme_status (*scale)(mneme_ctx* ctx, double* out, mneme_error* error);
} mneme_layer_api;

#ifdef __cplusplus
}
#endif
#endif /* MNEME_LAYER_H_ */
