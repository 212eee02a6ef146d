/* mneme/layer.h: group "mneme.layer/1", what the current layer of the backbone does for a hook: context, its projections, its attention, release, losses. */
#ifndef MNEME_LAYER_H_
#define MNEME_LAYER_H_

#include "mneme/abi.h"
#include "mneme/state.h"

#ifdef __cplusplus
extern "C" {
#endif

#define MNEME_GROUP_LAYER "mneme.layer/1"

/* Where the rows of a context block stand. Distances count back from the segment's first token, which has distance 0: the row just before it has 1. */
enum {
  MNEME_POSITION_PLACE = 0,    /* by place: behind the blocks emitted after it, oldest first; tiers farther up the stack lie farther away. Rows that a lane does not have take no place in it, nor do blocks of the other kinds */
  MNEME_POSITION_EXPLICIT = 1, /* `distance` [B,m] or [1,m] i64 holds each row's distance to the segment's first token */
  MNEME_POSITION_NONE = 2      /* no position term: the score is the content term alone */
};

/* A context block: rows that every token of the segment may attend to. */
typedef struct mneme_block {
  uint32_t struct_size;
  uint32_t flags;
  uint32_t position_kind;
  uint32_t reserved;
  mneme_queue queue;  /* != 0: the whole content of this queue, `rows` is ignored; keys and values are kept by the host in evaluation */
  uint32_t reserved2;
  const mneme_rows* rows; /* any MNEME_ROWS_* kind; gradients flow back into its tensors. NULL when `queue` is given */
  mneme_tensor distance;  /* MNEME_POSITION_EXPLICIT: [B|1, m] i64, for a queue over all its rows */
  mneme_tensor bias;  /* [B|1, H|1, T|1, m] added to the scores, differentiable; -inf = absent: probability and gradient exactly 0. 0 = none */
} mneme_block;

/* Which projection of the layer. */
enum { MNEME_PROJECT_Q = 1, MNEME_PROJECT_K = 2, MNEME_PROJECT_V = 3, MNEME_PROJECT_O = 4 };

/* Weights of the layer, as the layer uses them. */
enum {
  MNEME_WEIGHT_Q = 1, /* [H*d, D] */
  MNEME_WEIGHT_K = 2,
  MNEME_WEIGHT_V = 3,
  MNEME_WEIGHT_O = 4,        /* [D, H*d] */
  MNEME_WEIGHT_NORM = 5,     /* [D], the norm before (pre) or after (post) attention */
  MNEME_WEIGHT_NORM_BIAS = 6, /* [D] */
  MNEME_WEIGHT_CONTENT_BIAS = 7, /* [H,d], u of the relative schemes ("relative", "disentangled") */
  MNEME_WEIGHT_POSITION_BIAS = 8 /* [H,d], their v */
};

/* project, norm, weight: the result has no gradient towards the layer's weights (they are read as constants); gradients into the rows flow. */
#define MNEME_NO_WEIGHT_GRADIENT 1u

enum {
  MNEME_MASK_CAUSAL = 0, /* keys at or before the query */
  MNEME_MASK_FULL = 1,
  MNEME_MASK_WINDOW = 2  /* keys from query - window_before to query + window_after, within the keys named below */
};

/* One call of the backbone's own attention code.
 *
 * Key j stands at j, query i at query_offset + i. Without flags a score is the scaled q.k; see MNEME_ATTENTION_*. z comes back in virtual_value's dtype when that is given
 * (f32 keeps a carried value from being rounded again and again), else in v's. */
typedef struct mneme_attention {
  uint32_t struct_size;
  uint32_t flags;
  mneme_tensor q; /* [B,Tq,H,d], without position biases */
  mneme_tensor k; /* [B,K,H,d] */
  mneme_tensor v;
  uint32_t mask;
  uint32_t reserved;
  int64_t query_offset;
  int64_t window_before; /* MNEME_MASK_WINDOW; -1 = strictly after the query */
  int64_t window_after;
  int64_t first_key; /* MNEME_MASK_WINDOW: keys [first_key, first_key + key_count) alone */
  int64_t key_count; /* 0 = all from first_key on */
  mneme_tensor key_valid;     /* [B,K] bool, 0 = all */
  mneme_tensor bias;          /* [B|1,H|1,Tq|1,K] added to the scaled scores, 0 = none */
  mneme_tensor content_bias;  /* [H,d] in place of the layer's u (relative scheme), 0 = the layer's */
  mneme_tensor position_bias; /* [H,d] in place of the layer's v (relative scheme), 0 = the layer's */
  mneme_tensor virtual_logit; /* [B,H,Tq] f32 or f64: one extra key a query with this (already scaled) logit ... */
  mneme_tensor virtual_value; /* [B,Tq,H,d]: ... and this value. Both 0 = none */
  double scale;               /* 0 = 1/sqrt(d) */
} mneme_attention;

/* The layer's whole position scheme on distances |query - key|: in the relative scheme u, v and the projected table. */
#define MNEME_ATTENTION_POSITIONS 1u
/* The content bias u of the relative scheme alone: (q + u).k. */
#define MNEME_ATTENTION_CONTENT_BIAS 2u
/* The layer's attention dropout on the probabilities that form z (never on lse), in training. */
#define MNEME_ATTENTION_DROPOUT 4u

/* positions: offsets keep their sign, R of minus the offset; otherwise R of the distance |offset|. */
#define MNEME_POSITIONS_SIGNED 1u

typedef struct mneme_layer_api {
  uint32_t struct_size;
  uint32_t flags;

  /* [hook: context] Emits a block. Blocks of one tier stand in the order of the calls, oldest first. Errors: MNEME_E_SHAPE, MNEME_E_DTYPE. */
  mneme_status (*emit_block)(mneme_ctx* ctx, const mneme_block* block, mneme_error* error);

  /* [hook: context] A bias on the token columns, [B|1, H|1, T|1, offset+T] (offset: 0 but in open segments), differentiable; tiers' biases add up. Needs MNEME_TIER_TOKEN_BIAS. */
  mneme_status (*emit_token_bias)(mneme_ctx* ctx, mneme_tensor bias, mneme_error* error);

  /* [hook with a layer] The layer's norm before attention, exactly as the layer does it: identity in a post-norm layer. rows [B,m,D] -> [B,m,D]. flags: MNEME_NO_WEIGHT_GRADIENT. */
  mneme_status (*norm)(mneme_ctx* ctx, mneme_tensor rows, uint32_t flags, mneme_tensor* out, mneme_error* error);

  /* [hook with a layer] The layer's projection. Q, K, V: normed rows [B,m,D] -> [B,m,H,d]; O: [B,m,H,d] -> [B,m,D]. flags: MNEME_NO_WEIGHT_GRADIENT. */
  mneme_status (*project)(mneme_ctx* ctx, uint32_t which, mneme_tensor rows, uint32_t flags, mneme_tensor* out, mneme_error* error);

  /* [hook with a layer] A weight itself. Borrowed. */
  mneme_status (*weight)(mneme_ctx* ctx, uint32_t which, uint32_t flags, mneme_tensor* out, mneme_error* error);

  /* [hook with a layer] Attention: z [B,Tq,H,d] and lse [B,H,Tq] (at least f32, before dropout). A query without keys gives z = 0, lse = -inf. */
  mneme_status (*attention)(mneme_ctx* ctx, const mneme_attention* call, mneme_tensor* z, mneme_tensor* lse, mneme_error* error);

  /* [hook: absorb, ride] Lets rows go: the nearest later tier that is fed with released rows receives them, detached, waiting in a queue of the host until that
   * tier absorbs. Needs MNEME_TIER_RELEASES. Calls within one segment and layer are appended in order. */
  mneme_status (*release)(mneme_ctx* ctx, const mneme_rows* rows, mneme_error* error);

  /* [hook] An auxiliary loss: value [B] (or [] for all lanes), weight [B] or 0 (= 1 for each lane; where the weight is 0 the value is not looked at). The host takes the weighted mean over lanes and calls, sums over layers,
   * multiplies by the manifest's weight.<name> (1 when absent) and adds it to the loss. Errors: MNEME_E_INVALID_ARGUMENT for a name that mneme_plugin.losses does not declare. */
  mneme_status (*aux)(mneme_ctx* ctx, const char* name, mneme_tensor value, mneme_tensor weight, mneme_error* error);

  /* [hook] A number to report, averaged as an auxiliary loss is, without gradient. */
  mneme_status (*metric)(mneme_ctx* ctx, const char* name, mneme_tensor value, mneme_tensor weight, mneme_error* error);

  /* [hook with a layer] Projected positions of the relative schemes, [H,count,d] in the compute dtype: row r is the layer's projection of the sinusoids for offset least + r, where
   * an offset o means a key o places after its query. The term of a score is (q + v).row, scaled as q.k. In the layer's graph, dropout and model.clamp_distance included.
   * flags: MNEME_POSITIONS_SIGNED. Errors: MNEME_E_UNSUPPORTED under other schemes; MNEME_E_INVALID_ARGUMENT for count < 1. */
  mneme_status (*positions)(mneme_ctx* ctx, int64_t least, int64_t count, uint32_t flags, mneme_tensor* out, mneme_error* error);
} mneme_layer_api;

#ifdef __cplusplus
}
#endif
#endif /* MNEME_LAYER_H_ */
