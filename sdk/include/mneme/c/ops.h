/* mneme/c/ops.h: the host's ops as functions, for plugins in C. No part of the specification: the
 * functions fill the arrays of mneme_op_api.call. Written from the schemas of the ops, as
 * `mneme abi ops` prints them; a test holds it to them.
 *
 * A plugin resolves the ops that it uses, in `create`, and calls them in its hooks:
 *
 *   static const mneme_op_id kUsed[] = {MNEME_OP_MATMUL, MNEME_OP_SOFTMAX};
 *   status = mneme_ops_resolve(&self->ops, op_api, setup, kUsed, 2, error);
 *   ...
 *   status = mneme_op_matmul(&self->ops, ctx, q, k, &scores, error);
 *
 * A host that lacks an op refuses plugins that resolve it, and no others. Parameters are the op's
 * inputs, attributes and outputs, in the schema's order. An input that may be absent is 0 then. An
 * attribute that may be absent is left out where it is MNEME_OP_ABSENT (integers), NaN (reals) or
 * NULL; what its absence means stands behind "absent". Where a number may stand for a tensor, there
 * are functions for it: `_scalar` takes it in place of the last input, `_scalar_a` of the input a.
 * All of them may be called in hooks alone; errors are those of mneme_op_api.call. */
#ifndef MNEME_C_OPS_H_
#define MNEME_C_OPS_H_

#include "mneme/sdk.h"

/* clang-format off */

typedef enum mneme_op_id {
  MNEME_OP_ABS,
  MNEME_OP_ADD,
  MNEME_OP_ALL,
  MNEME_OP_AMAX,
  MNEME_OP_AMIN,
  MNEME_OP_ANY,
  MNEME_OP_ARANGE,
  MNEME_OP_ARGMAX,
  MNEME_OP_ARGMIN,
  MNEME_OP_AVG_POOL1D,
  MNEME_OP_CAST,
  MNEME_OP_CAT,
  MNEME_OP_CLAMP,
  MNEME_OP_CONTIGUOUS,
  MNEME_OP_CONV1D,
  MNEME_OP_COS,
  MNEME_OP_CUMSUM,
  MNEME_OP_DETACH,
  MNEME_OP_DIV,
  MNEME_OP_EINSUM,
  MNEME_OP_ELU,
  MNEME_OP_EQ,
  MNEME_OP_ERF,
  MNEME_OP_EXP,
  MNEME_OP_EXPAND,
  MNEME_OP_EXPM1,
  MNEME_OP_EYE,
  MNEME_OP_FLATTEN,
  MNEME_OP_FLIP,
  MNEME_OP_FLOOR,
  MNEME_OP_FMOD,
  MNEME_OP_FULL,
  MNEME_OP_FULL_LIKE,
  MNEME_OP_GATHER,
  MNEME_OP_GE,
  MNEME_OP_GELU,
  MNEME_OP_GT,
  MNEME_OP_INDEX_SELECT,
  MNEME_OP_ISFINITE,
  MNEME_OP_LAYER_NORM,
  MNEME_OP_LE,
  MNEME_OP_LINEAR,
  MNEME_OP_LINSPACE,
  MNEME_OP_LOG,
  MNEME_OP_LOG1P,
  MNEME_OP_LOG_SOFTMAX,
  MNEME_OP_LOGADDEXP,
  MNEME_OP_LOGICAL_AND,
  MNEME_OP_LOGICAL_NOT,
  MNEME_OP_LOGICAL_OR,
  MNEME_OP_LOGSUMEXP,
  MNEME_OP_LT,
  MNEME_OP_MASKED_FILL,
  MNEME_OP_MATMUL,
  MNEME_OP_MAX_POOL1D,
  MNEME_OP_MAXIMUM,
  MNEME_OP_MEAN,
  MNEME_OP_MINIMUM,
  MNEME_OP_MUL,
  MNEME_OP_NE,
  MNEME_OP_NEG,
  MNEME_OP_NORM2,
  MNEME_OP_NORMAL_CDF,
  MNEME_OP_ONE_HOT,
  MNEME_OP_PAD,
  MNEME_OP_PERMUTE,
  MNEME_OP_POW,
  MNEME_OP_PROD,
  MNEME_OP_RECIPROCAL,
  MNEME_OP_RELU,
  MNEME_OP_REPEAT,
  MNEME_OP_REPEAT_INTERLEAVE,
  MNEME_OP_RESHAPE,
  MNEME_OP_ROLL,
  MNEME_OP_ROTATE,
  MNEME_OP_ROUND,
  MNEME_OP_RSQRT,
  MNEME_OP_SCATTER_ADD,
  MNEME_OP_SEARCHSORTED,
  MNEME_OP_SIGMOID,
  MNEME_OP_SIGN,
  MNEME_OP_SILU,
  MNEME_OP_SIN,
  MNEME_OP_SLICE,
  MNEME_OP_SOFTMAX,
  MNEME_OP_SOFTPLUS,
  MNEME_OP_SORT,
  MNEME_OP_SQRT,
  MNEME_OP_SQUARE,
  MNEME_OP_SQUEEZE,
  MNEME_OP_STACK,
  MNEME_OP_SUB,
  MNEME_OP_SUM,
  MNEME_OP_TAKE_ALONG_DIM,
  MNEME_OP_TANH,
  MNEME_OP_TOPK,
  MNEME_OP_TRANSPOSE,
  MNEME_OP_TRIL,
  MNEME_OP_TRIU,
  MNEME_OP_UNSQUEEZE,
  MNEME_OP_VAR,
  MNEME_OP_WHERE,
  MNEME_OP_ZEROS_LIKE,
  MNEME_OP_COUNT
} mneme_op_id;

/* An optional integer that is absent. */
#define MNEME_OP_ABSENT INT64_MIN

/* The ops that an instance has resolved. */
typedef struct mneme_ops {
  const mneme_op_api* api;
  mneme_op handles[MNEME_OP_COUNT]; /* by mneme_op_id; 0 = not resolved */
} mneme_ops;

/* The name with its revision; "" for what is no op. */
static inline const char* mneme_op_name(mneme_op_id id) {
  static const char* const names[MNEME_OP_COUNT] = {
      "abs/1",
      "add/1",
      "all/1",
      "amax/1",
      "amin/1",
      "any/1",
      "arange/1",
      "argmax/1",
      "argmin/1",
      "avg_pool1d/1",
      "cast/1",
      "cat/1",
      "clamp/1",
      "contiguous/1",
      "conv1d/1",
      "cos/1",
      "cumsum/1",
      "detach/1",
      "div/1",
      "einsum/1",
      "elu/1",
      "eq/1",
      "erf/1",
      "exp/1",
      "expand/1",
      "expm1/1",
      "eye/1",
      "flatten/1",
      "flip/1",
      "floor/1",
      "fmod/1",
      "full/1",
      "full_like/1",
      "gather/1",
      "ge/1",
      "gelu/1",
      "gt/1",
      "index_select/1",
      "isfinite/1",
      "layer_norm/1",
      "le/1",
      "linear/1",
      "linspace/1",
      "log/1",
      "log1p/1",
      "log_softmax/1",
      "logaddexp/1",
      "logical_and/1",
      "logical_not/1",
      "logical_or/1",
      "logsumexp/1",
      "lt/1",
      "masked_fill/1",
      "matmul/1",
      "max_pool1d/1",
      "maximum/1",
      "mean/1",
      "minimum/1",
      "mul/1",
      "ne/1",
      "neg/1",
      "norm2/1",
      "normal_cdf/1",
      "one_hot/1",
      "pad/1",
      "permute/1",
      "pow/1",
      "prod/1",
      "reciprocal/1",
      "relu/1",
      "repeat/1",
      "repeat_interleave/1",
      "reshape/1",
      "roll/1",
      "rotate/1",
      "round/1",
      "rsqrt/1",
      "scatter_add/1",
      "searchsorted/1",
      "sigmoid/1",
      "sign/1",
      "silu/1",
      "sin/1",
      "slice/1",
      "softmax/1",
      "softplus/1",
      "sort/1",
      "sqrt/1",
      "square/1",
      "squeeze/1",
      "stack/1",
      "sub/1",
      "sum/1",
      "take_along_dim/1",
      "tanh/1",
      "topk/1",
      "transpose/1",
      "tril/1",
      "triu/1",
      "unsqueeze/1",
      "var/1",
      "where/1",
      "zeros_like/1",
  };
  return (uint32_t)id < (uint32_t)MNEME_OP_COUNT ? names[id] : "";
}

/* [setup] Resolves the `count` ops of `used` together.
 * Errors: as mneme_op_api.resolve; MNEME_E_INVALID_ARGUMENT for an id that is none, and for more
 * ids than there are ops. */
static inline mneme_status mneme_ops_resolve(
    mneme_ops* ops, const mneme_op_api* api, mneme_setup* setup, const mneme_op_id* used,
    uint32_t count, mneme_error* error) {
  const char* names[MNEME_OP_COUNT] = {NULL};
  mneme_op found[MNEME_OP_COUNT] = {0};
  mneme_status status = MNEME_OK;
  uint32_t i = 0;
  ops->api = api;
  for (i = 0; i < (uint32_t)MNEME_OP_COUNT; ++i) {
    ops->handles[i] = 0;
  }
  if (count > (uint32_t)MNEME_OP_COUNT) {
    return MNEME_FAIL(error, MNEME_E_INVALID_ARGUMENT,
                      "mneme_ops_resolve: more ops than there are; is `count` right?");
  }
  for (i = 0; i < count; ++i) {
    names[i] = mneme_op_name(used[i]);
    if (names[i][0] == '\0') {
      return MNEME_FAIL(error, MNEME_E_INVALID_ARGUMENT,
                        "mneme_ops_resolve: no such op; expected ids MNEME_OP_...");
    }
  }
  status = api->resolve(setup, names, count, found, error);
  if (status != MNEME_OK) {
    return status;
  }
  for (i = 0; i < count; ++i) {
    ops->handles[used[i]] = found[i];
  }
  return MNEME_OK;
}

/* ---- what the functions below are made of -------------------------------------------------- */

static inline mneme_attr mneme_ops_integer(const char* name, int64_t value) {
  const mneme_attr attr = {name, MNEME_ATTR_INT, 0, value, 0.0, NULL, NULL};
  return attr;
}
static inline mneme_attr mneme_ops_real(const char* name, double value) {
  const mneme_attr attr = {name, MNEME_ATTR_REAL, 0, 0, value, NULL, NULL};
  return attr;
}
static inline mneme_attr mneme_ops_integers(const char* name, const int64_t* values,
                                            uint32_t count) {
  const mneme_attr attr = {name, MNEME_ATTR_INTS, count, 0, 0.0, values, NULL};
  return attr;
}
static inline mneme_attr mneme_ops_text(const char* name, const char* value) {
  const mneme_attr attr = {name, MNEME_ATTR_TEXT, 0, 0, 0.0, NULL, value};
  return attr;
}

static inline mneme_status mneme_ops_call(
    const mneme_ops* ops, mneme_ctx* ctx, mneme_op_id id, const mneme_tensor* inputs,
    uint32_t n_in, const mneme_attr* attrs, uint32_t n_attrs, mneme_tensor* outputs,
    uint32_t n_out, mneme_error* error) {
  if (ops->handles[id] == 0) {
    char message[128];
    size_t at = mneme_sdk_append(message, 0, sizeof(message), mneme_op_name(id));
    mneme_sdk_append(message, at, sizeof(message),
                     " is not resolved: name it in mneme_ops_resolve");
    return MNEME_FAIL(error, MNEME_E_INVALID_ARGUMENT, message);
  }
  return ops->api->call(ctx, ops->handles[id], inputs, n_in, n_attrs > 0 ? attrs : NULL, n_attrs,
                        outputs, n_out, error);
}

/* ---- the ops ------------------------------------------------------------------------------- */

/* abs/1 [number] |x|; gradient 0 at 0. */
static inline mneme_status mneme_op_abs(
    const mneme_ops* ops, mneme_ctx* ctx, mneme_tensor x, mneme_tensor* y, mneme_error* error) {
  const mneme_tensor inputs[1] = {x};
  return mneme_ops_call(ops, ctx, MNEME_OP_ABS, inputs, 1, NULL, 0, y, 1, error);
}

/* add/1 [number] a + b; broadcasts. */
static inline mneme_status mneme_op_add(
    const mneme_ops* ops, mneme_ctx* ctx, mneme_tensor a, mneme_tensor b, mneme_tensor* y,
    mneme_error* error) {
  const mneme_tensor inputs[2] = {a, b};
  return mneme_ops_call(ops, ctx, MNEME_OP_ADD, inputs, 2, NULL, 0, y, 1, error);
}
static inline mneme_status mneme_op_add_scalar_a(
    const mneme_ops* ops, mneme_ctx* ctx, double a, mneme_tensor b, mneme_tensor* y,
    mneme_error* error) {
  const mneme_tensor inputs[2] = {0, b};
  mneme_attr attrs[1];
  uint32_t count = 0;
  attrs[count++] = mneme_ops_real("scalar", a);
  return mneme_ops_call(ops, ctx, MNEME_OP_ADD, inputs, 2, attrs, count, y, 1, error);
}
static inline mneme_status mneme_op_add_scalar(
    const mneme_ops* ops, mneme_ctx* ctx, mneme_tensor a, double b, mneme_tensor* y,
    mneme_error* error) {
  const mneme_tensor inputs[2] = {a, 0};
  mneme_attr attrs[1];
  uint32_t count = 0;
  attrs[count++] = mneme_ops_real("scalar", b);
  return mneme_ops_call(ops, ctx, MNEME_OP_ADD, inputs, 2, attrs, count, y, 1, error);
}

/* all/1 [bool, no gradient] True where all are true; true of nothing. dims: dimensions to reduce;
   absent = all. keepdim: 1: keep them with extent 1; by default 0. */
static inline mneme_status mneme_op_all(
    const mneme_ops* ops, mneme_ctx* ctx, mneme_tensor x, const int64_t* dims, uint32_t n_dims,
    int64_t keepdim, mneme_tensor* y, mneme_error* error) {
  const mneme_tensor inputs[1] = {x};
  mneme_attr attrs[2];
  uint32_t count = 0;
  if (dims != NULL) {
    attrs[count++] = mneme_ops_integers("dims", dims, n_dims);
  }
  attrs[count++] = mneme_ops_integer("keepdim", keepdim);
  return mneme_ops_call(ops, ctx, MNEME_OP_ALL, inputs, 1, attrs, count, y, 1, error);
}

/* amax/1 [number] Largest element; equal ones share the gradient. An empty one is an error. dims:
   dimensions to reduce; absent = all. keepdim: 1: keep them with extent 1; by default 0. */
static inline mneme_status mneme_op_amax(
    const mneme_ops* ops, mneme_ctx* ctx, mneme_tensor x, const int64_t* dims, uint32_t n_dims,
    int64_t keepdim, mneme_tensor* y, mneme_error* error) {
  const mneme_tensor inputs[1] = {x};
  mneme_attr attrs[2];
  uint32_t count = 0;
  if (dims != NULL) {
    attrs[count++] = mneme_ops_integers("dims", dims, n_dims);
  }
  attrs[count++] = mneme_ops_integer("keepdim", keepdim);
  return mneme_ops_call(ops, ctx, MNEME_OP_AMAX, inputs, 1, attrs, count, y, 1, error);
}

/* amin/1 [number] Smallest element; equal ones share the gradient. An empty one is an error. dims:
   dimensions to reduce; absent = all. keepdim: 1: keep them with extent 1; by default 0. */
static inline mneme_status mneme_op_amin(
    const mneme_ops* ops, mneme_ctx* ctx, mneme_tensor x, const int64_t* dims, uint32_t n_dims,
    int64_t keepdim, mneme_tensor* y, mneme_error* error) {
  const mneme_tensor inputs[1] = {x};
  mneme_attr attrs[2];
  uint32_t count = 0;
  if (dims != NULL) {
    attrs[count++] = mneme_ops_integers("dims", dims, n_dims);
  }
  attrs[count++] = mneme_ops_integer("keepdim", keepdim);
  return mneme_ops_call(ops, ctx, MNEME_OP_AMIN, inputs, 1, attrs, count, y, 1, error);
}

/* any/1 [bool, no gradient] True where any is true; false of nothing. dims: dimensions to reduce;
   absent = all. keepdim: 1: keep them with extent 1; by default 0. */
static inline mneme_status mneme_op_any(
    const mneme_ops* ops, mneme_ctx* ctx, mneme_tensor x, const int64_t* dims, uint32_t n_dims,
    int64_t keepdim, mneme_tensor* y, mneme_error* error) {
  const mneme_tensor inputs[1] = {x};
  mneme_attr attrs[2];
  uint32_t count = 0;
  if (dims != NULL) {
    attrs[count++] = mneme_ops_integers("dims", dims, n_dims);
  }
  attrs[count++] = mneme_ops_integer("keepdim", keepdim);
  return mneme_ops_call(ops, ctx, MNEME_OP_ANY, inputs, 1, attrs, count, y, 1, error);
}

/* arange/1 [number, no gradient] [ceil((end - start) / step)]: start, start + step, ... before end.
   start: first element; by default 0.0. end: behind the last element. step: difference, not 0; by
   default 1.0. dtype: MNEME_F32 ... of the result; by default MNEME_F32. */
static inline mneme_status mneme_op_arange(
    const mneme_ops* ops, mneme_ctx* ctx, double start, double end, double step, uint32_t dtype,
    mneme_tensor* y, mneme_error* error) {
  mneme_attr attrs[4];
  uint32_t count = 0;
  attrs[count++] = mneme_ops_real("start", start);
  attrs[count++] = mneme_ops_real("end", end);
  attrs[count++] = mneme_ops_real("step", step);
  attrs[count++] = mneme_ops_integer("dtype", dtype);
  return mneme_ops_call(ops, ctx, MNEME_OP_ARANGE, NULL, 0, attrs, count, y, 1, error);
}

/* argmax/1 [number, no gradient] Index of the largest element, the first of equals; over all
   elements in row-major order. dim: dimension; absent = all elements. keepdim: 1: keep it with
   extent 1; by default 0. */
static inline mneme_status mneme_op_argmax(
    const mneme_ops* ops, mneme_ctx* ctx, mneme_tensor x, int64_t dim, int64_t keepdim,
    mneme_tensor* y, mneme_error* error) {
  const mneme_tensor inputs[1] = {x};
  mneme_attr attrs[2];
  uint32_t count = 0;
  if (dim != MNEME_OP_ABSENT) {
    attrs[count++] = mneme_ops_integer("dim", dim);
  }
  attrs[count++] = mneme_ops_integer("keepdim", keepdim);
  return mneme_ops_call(ops, ctx, MNEME_OP_ARGMAX, inputs, 1, attrs, count, y, 1, error);
}

/* argmin/1 [number, no gradient] Index of the smallest element, the first of equals; over all
   elements in row-major order. dim: dimension; absent = all elements. keepdim: 1: keep it with
   extent 1; by default 0. */
static inline mneme_status mneme_op_argmin(
    const mneme_ops* ops, mneme_ctx* ctx, mneme_tensor x, int64_t dim, int64_t keepdim,
    mneme_tensor* y, mneme_error* error) {
  const mneme_tensor inputs[1] = {x};
  mneme_attr attrs[2];
  uint32_t count = 0;
  if (dim != MNEME_OP_ABSENT) {
    attrs[count++] = mneme_ops_integer("dim", dim);
  }
  attrs[count++] = mneme_ops_integer("keepdim", keepdim);
  return mneme_ops_call(ops, ctx, MNEME_OP_ARGMIN, inputs, 1, attrs, count, y, 1, error);
}

/* avg_pool1d/1 [float] Mean of each window along T of x [B, C, T]; padding counts as zeros. kernel:
   window. stride: step from window to window; absent = kernel. padding: places at both ends, at
   most kernel / 2; by default 0. */
static inline mneme_status mneme_op_avg_pool1d(
    const mneme_ops* ops, mneme_ctx* ctx, mneme_tensor x, int64_t kernel, int64_t stride,
    int64_t padding, mneme_tensor* y, mneme_error* error) {
  const mneme_tensor inputs[1] = {x};
  mneme_attr attrs[3];
  uint32_t count = 0;
  attrs[count++] = mneme_ops_integer("kernel", kernel);
  if (stride != MNEME_OP_ABSENT) {
    attrs[count++] = mneme_ops_integer("stride", stride);
  }
  attrs[count++] = mneme_ops_integer("padding", padding);
  return mneme_ops_call(ops, ctx, MNEME_OP_AVG_POOL1D, inputs, 1, attrs, count, y, 1, error);
}

/* cast/1 [any] x in another dtype; towards integers rounds to zero, towards bool x != 0. Gradients
   flow between float dtypes. dtype: MNEME_F32 ... of the result. */
static inline mneme_status mneme_op_cast(
    const mneme_ops* ops, mneme_ctx* ctx, mneme_tensor x, uint32_t dtype, mneme_tensor* y,
    mneme_error* error) {
  const mneme_tensor inputs[1] = {x};
  mneme_attr attrs[1];
  uint32_t count = 0;
  attrs[count++] = mneme_ops_integer("dtype", dtype);
  return mneme_ops_call(ops, ctx, MNEME_OP_CAST, inputs, 1, attrs, count, y, 1, error);
}

/* cat/1 [any] The parts one after the other along dim; their other extents are equal. dim:
   dimension to join along. */
static inline mneme_status mneme_op_cat(
    const mneme_ops* ops, mneme_ctx* ctx, const mneme_tensor* parts, uint32_t n_parts, int64_t dim,
    mneme_tensor* y, mneme_error* error) {
  mneme_attr attrs[1];
  uint32_t count = 0;
  attrs[count++] = mneme_ops_integer("dim", dim);
  return mneme_ops_call(ops, ctx, MNEME_OP_CAT, parts, n_parts, attrs, count, y, 1, error);
}

/* clamp/1 [number] x limited to [min, max]; gradient 0 outside, 1 on the limits. min: lower limit;
   absent = none. max: upper limit; absent = none. */
static inline mneme_status mneme_op_clamp(
    const mneme_ops* ops, mneme_ctx* ctx, mneme_tensor x, double min, double max, mneme_tensor* y,
    mneme_error* error) {
  const mneme_tensor inputs[1] = {x};
  mneme_attr attrs[2];
  uint32_t count = 0;
  if (min == min) {
    attrs[count++] = mneme_ops_real("min", min);
  }
  if (max == max) {
    attrs[count++] = mneme_ops_real("max", max);
  }
  return mneme_ops_call(ops, ctx, MNEME_OP_CLAMP, inputs, 1, attrs, count, y, 1, error);
}

/* contiguous/1 [any] x in row-major order; x itself when it is. */
static inline mneme_status mneme_op_contiguous(
    const mneme_ops* ops, mneme_ctx* ctx, mneme_tensor x, mneme_tensor* y, mneme_error* error) {
  const mneme_tensor inputs[1] = {x};
  return mneme_ops_call(ops, ctx, MNEME_OP_CONTIGUOUS, inputs, 1, NULL, 0, y, 1, error);
}

/* conv1d/1 [float] Correlation of x [B, in, T] with w [out, in / groups, taps] along T, plus b
   [out]. stride: step from window to window; by default 1. padding: zeros at both ends; by default
   0. dilation: distance between taps; by default 1. groups: channels in separate groups; by default
   1. */
static inline mneme_status mneme_op_conv1d(
    const mneme_ops* ops, mneme_ctx* ctx, mneme_tensor x, mneme_tensor w, mneme_tensor b,
    int64_t stride, int64_t padding, int64_t dilation, int64_t groups, mneme_tensor* y,
    mneme_error* error) {
  const mneme_tensor inputs[3] = {x, w, b};
  mneme_attr attrs[4];
  uint32_t count = 0;
  attrs[count++] = mneme_ops_integer("stride", stride);
  attrs[count++] = mneme_ops_integer("padding", padding);
  attrs[count++] = mneme_ops_integer("dilation", dilation);
  attrs[count++] = mneme_ops_integer("groups", groups);
  return mneme_ops_call(ops, ctx, MNEME_OP_CONV1D, inputs, 3, attrs, count, y, 1, error);
}

/* cos/1 [float] Cosine of x in radians. */
static inline mneme_status mneme_op_cos(
    const mneme_ops* ops, mneme_ctx* ctx, mneme_tensor x, mneme_tensor* y, mneme_error* error) {
  const mneme_tensor inputs[1] = {x};
  return mneme_ops_call(ops, ctx, MNEME_OP_COS, inputs, 1, NULL, 0, y, 1, error);
}

/* cumsum/1 [number] Running sum in x's dtype, each element included. dim: dimension to add along.
   */
static inline mneme_status mneme_op_cumsum(
    const mneme_ops* ops, mneme_ctx* ctx, mneme_tensor x, int64_t dim, mneme_tensor* y,
    mneme_error* error) {
  const mneme_tensor inputs[1] = {x};
  mneme_attr attrs[1];
  uint32_t count = 0;
  attrs[count++] = mneme_ops_integer("dim", dim);
  return mneme_ops_call(ops, ctx, MNEME_OP_CUMSUM, inputs, 1, attrs, count, y, 1, error);
}

/* detach/1 [any, no gradient] x without its gradient; shares x's memory. */
static inline mneme_status mneme_op_detach(
    const mneme_ops* ops, mneme_ctx* ctx, mneme_tensor x, mneme_tensor* y, mneme_error* error) {
  const mneme_tensor inputs[1] = {x};
  return mneme_ops_call(ops, ctx, MNEME_OP_DETACH, inputs, 1, NULL, 0, y, 1, error);
}

/* div/1 [float] a / b; broadcasts. */
static inline mneme_status mneme_op_div(
    const mneme_ops* ops, mneme_ctx* ctx, mneme_tensor a, mneme_tensor b, mneme_tensor* y,
    mneme_error* error) {
  const mneme_tensor inputs[2] = {a, b};
  return mneme_ops_call(ops, ctx, MNEME_OP_DIV, inputs, 2, NULL, 0, y, 1, error);
}
static inline mneme_status mneme_op_div_scalar_a(
    const mneme_ops* ops, mneme_ctx* ctx, double a, mneme_tensor b, mneme_tensor* y,
    mneme_error* error) {
  const mneme_tensor inputs[2] = {0, b};
  mneme_attr attrs[1];
  uint32_t count = 0;
  attrs[count++] = mneme_ops_real("scalar", a);
  return mneme_ops_call(ops, ctx, MNEME_OP_DIV, inputs, 2, attrs, count, y, 1, error);
}
static inline mneme_status mneme_op_div_scalar(
    const mneme_ops* ops, mneme_ctx* ctx, mneme_tensor a, double b, mneme_tensor* y,
    mneme_error* error) {
  const mneme_tensor inputs[2] = {a, 0};
  mneme_attr attrs[1];
  uint32_t count = 0;
  attrs[count++] = mneme_ops_real("scalar", b);
  return mneme_ops_call(ops, ctx, MNEME_OP_DIV, inputs, 2, attrs, count, y, 1, error);
}

/* einsum/1 [float] Product of the operands summed over every index that the output lacks. One
   letter a dimension, "->" required, equal letters need equal extents. equation: "bhid,bhjd->bhij".
   */
static inline mneme_status mneme_op_einsum(
    const mneme_ops* ops, mneme_ctx* ctx, const mneme_tensor* operands, uint32_t n_operands,
    const char* equation, mneme_tensor* y, mneme_error* error) {
  mneme_attr attrs[1];
  uint32_t count = 0;
  attrs[count++] = mneme_ops_text("equation", equation);
  return mneme_ops_call(ops, ctx, MNEME_OP_EINSUM, operands, n_operands, attrs, count, y, 1, error);
}

/* elu/1 [float] x above 0, alpha * (e^x - 1) elsewhere. alpha: scale of the negative branch; by
   default 1.0. */
static inline mneme_status mneme_op_elu(
    const mneme_ops* ops, mneme_ctx* ctx, mneme_tensor x, double alpha, mneme_tensor* y,
    mneme_error* error) {
  const mneme_tensor inputs[1] = {x};
  mneme_attr attrs[1];
  uint32_t count = 0;
  attrs[count++] = mneme_ops_real("alpha", alpha);
  return mneme_ops_call(ops, ctx, MNEME_OP_ELU, inputs, 1, attrs, count, y, 1, error);
}

/* eq/1 [any, no gradient] a == b; broadcasts. */
static inline mneme_status mneme_op_eq(
    const mneme_ops* ops, mneme_ctx* ctx, mneme_tensor a, mneme_tensor b, mneme_tensor* y,
    mneme_error* error) {
  const mneme_tensor inputs[2] = {a, b};
  return mneme_ops_call(ops, ctx, MNEME_OP_EQ, inputs, 2, NULL, 0, y, 1, error);
}
static inline mneme_status mneme_op_eq_scalar_a(
    const mneme_ops* ops, mneme_ctx* ctx, double a, mneme_tensor b, mneme_tensor* y,
    mneme_error* error) {
  const mneme_tensor inputs[2] = {0, b};
  mneme_attr attrs[1];
  uint32_t count = 0;
  attrs[count++] = mneme_ops_real("scalar", a);
  return mneme_ops_call(ops, ctx, MNEME_OP_EQ, inputs, 2, attrs, count, y, 1, error);
}
static inline mneme_status mneme_op_eq_scalar(
    const mneme_ops* ops, mneme_ctx* ctx, mneme_tensor a, double b, mneme_tensor* y,
    mneme_error* error) {
  const mneme_tensor inputs[2] = {a, 0};
  mneme_attr attrs[1];
  uint32_t count = 0;
  attrs[count++] = mneme_ops_real("scalar", b);
  return mneme_ops_call(ops, ctx, MNEME_OP_EQ, inputs, 2, attrs, count, y, 1, error);
}

/* erf/1 [float] Error function. */
static inline mneme_status mneme_op_erf(
    const mneme_ops* ops, mneme_ctx* ctx, mneme_tensor x, mneme_tensor* y, mneme_error* error) {
  const mneme_tensor inputs[1] = {x};
  return mneme_ops_call(ops, ctx, MNEME_OP_ERF, inputs, 1, NULL, 0, y, 1, error);
}

/* exp/1 [float] e^x. */
static inline mneme_status mneme_op_exp(
    const mneme_ops* ops, mneme_ctx* ctx, mneme_tensor x, mneme_tensor* y, mneme_error* error) {
  const mneme_tensor inputs[1] = {x};
  return mneme_ops_call(ops, ctx, MNEME_OP_EXP, inputs, 1, NULL, 0, y, 1, error);
}

/* expand/1 [any] x repeated along new dimensions and those of extent 1, without a copy. shape: new
   extents, aligned at the end; -1 = as it is. */
static inline mneme_status mneme_op_expand(
    const mneme_ops* ops, mneme_ctx* ctx, mneme_tensor x, const int64_t* shape, uint32_t n_shape,
    mneme_tensor* y, mneme_error* error) {
  const mneme_tensor inputs[1] = {x};
  mneme_attr attrs[1];
  uint32_t count = 0;
  attrs[count++] = mneme_ops_integers("shape", shape, n_shape);
  return mneme_ops_call(ops, ctx, MNEME_OP_EXPAND, inputs, 1, attrs, count, y, 1, error);
}

/* expm1/1 [float] e^x - 1, exact near 0. */
static inline mneme_status mneme_op_expm1(
    const mneme_ops* ops, mneme_ctx* ctx, mneme_tensor x, mneme_tensor* y, mneme_error* error) {
  const mneme_tensor inputs[1] = {x};
  return mneme_ops_call(ops, ctx, MNEME_OP_EXPM1, inputs, 1, NULL, 0, y, 1, error);
}

/* eye/1 [any, no gradient] [n, n] with 1 on the diagonal and 0 elsewhere. n: rows and columns.
   dtype: MNEME_F32 ... of the result; by default MNEME_F32. */
static inline mneme_status mneme_op_eye(
    const mneme_ops* ops, mneme_ctx* ctx, int64_t n, uint32_t dtype, mneme_tensor* y,
    mneme_error* error) {
  mneme_attr attrs[2];
  uint32_t count = 0;
  attrs[count++] = mneme_ops_integer("n", n);
  attrs[count++] = mneme_ops_integer("dtype", dtype);
  return mneme_ops_call(ops, ctx, MNEME_OP_EYE, NULL, 0, attrs, count, y, 1, error);
}

/* flatten/1 [any] Dimensions start .. end as one; a scalar gets one of extent 1. start: first
   dimension to join; by default 0. end: last dimension to join; by default -1. */
static inline mneme_status mneme_op_flatten(
    const mneme_ops* ops, mneme_ctx* ctx, mneme_tensor x, int64_t start, int64_t end,
    mneme_tensor* y, mneme_error* error) {
  const mneme_tensor inputs[1] = {x};
  mneme_attr attrs[2];
  uint32_t count = 0;
  attrs[count++] = mneme_ops_integer("start", start);
  attrs[count++] = mneme_ops_integer("end", end);
  return mneme_ops_call(ops, ctx, MNEME_OP_FLATTEN, inputs, 1, attrs, count, y, 1, error);
}

/* flip/1 [any] x in reverse order along dims. dims: dimensions to reverse. */
static inline mneme_status mneme_op_flip(
    const mneme_ops* ops, mneme_ctx* ctx, mneme_tensor x, const int64_t* dims, uint32_t n_dims,
    mneme_tensor* y, mneme_error* error) {
  const mneme_tensor inputs[1] = {x};
  mneme_attr attrs[1];
  uint32_t count = 0;
  attrs[count++] = mneme_ops_integers("dims", dims, n_dims);
  return mneme_ops_call(ops, ctx, MNEME_OP_FLIP, inputs, 1, attrs, count, y, 1, error);
}

/* floor/1 [float] Largest integer at most x; gradient 0. */
static inline mneme_status mneme_op_floor(
    const mneme_ops* ops, mneme_ctx* ctx, mneme_tensor x, mneme_tensor* y, mneme_error* error) {
  const mneme_tensor inputs[1] = {x};
  return mneme_ops_call(ops, ctx, MNEME_OP_FLOOR, inputs, 1, NULL, 0, y, 1, error);
}

/* fmod/1 [float] Remainder of a / b with the sign of a; broadcasts. NaN where b is 0. */
static inline mneme_status mneme_op_fmod(
    const mneme_ops* ops, mneme_ctx* ctx, mneme_tensor a, mneme_tensor b, mneme_tensor* y,
    mneme_error* error) {
  const mneme_tensor inputs[2] = {a, b};
  return mneme_ops_call(ops, ctx, MNEME_OP_FMOD, inputs, 2, NULL, 0, y, 1, error);
}
static inline mneme_status mneme_op_fmod_scalar_a(
    const mneme_ops* ops, mneme_ctx* ctx, double a, mneme_tensor b, mneme_tensor* y,
    mneme_error* error) {
  const mneme_tensor inputs[2] = {0, b};
  mneme_attr attrs[1];
  uint32_t count = 0;
  attrs[count++] = mneme_ops_real("scalar", a);
  return mneme_ops_call(ops, ctx, MNEME_OP_FMOD, inputs, 2, attrs, count, y, 1, error);
}
static inline mneme_status mneme_op_fmod_scalar(
    const mneme_ops* ops, mneme_ctx* ctx, mneme_tensor a, double b, mneme_tensor* y,
    mneme_error* error) {
  const mneme_tensor inputs[2] = {a, 0};
  mneme_attr attrs[1];
  uint32_t count = 0;
  attrs[count++] = mneme_ops_real("scalar", b);
  return mneme_ops_call(ops, ctx, MNEME_OP_FMOD, inputs, 2, attrs, count, y, 1, error);
}

/* full/1 [any, no gradient] A tensor of one value. shape: extents. value: of every element; by
   default 0.0. dtype: MNEME_F32 ... of the result; by default MNEME_F32. */
static inline mneme_status mneme_op_full(
    const mneme_ops* ops, mneme_ctx* ctx, const int64_t* shape, uint32_t n_shape, double value,
    uint32_t dtype, mneme_tensor* y, mneme_error* error) {
  mneme_attr attrs[3];
  uint32_t count = 0;
  attrs[count++] = mneme_ops_integers("shape", shape, n_shape);
  attrs[count++] = mneme_ops_real("value", value);
  attrs[count++] = mneme_ops_integer("dtype", dtype);
  return mneme_ops_call(ops, ctx, MNEME_OP_FULL, NULL, 0, attrs, count, y, 1, error);
}

/* full_like/1 [any, no gradient] A value in x's shape and dtype; without a gradient. value: of
   every element. */
static inline mneme_status mneme_op_full_like(
    const mneme_ops* ops, mneme_ctx* ctx, mneme_tensor x, double value, mneme_tensor* y,
    mneme_error* error) {
  const mneme_tensor inputs[1] = {x};
  mneme_attr attrs[1];
  uint32_t count = 0;
  attrs[count++] = mneme_ops_real("value", value);
  return mneme_ops_call(ops, ctx, MNEME_OP_FULL_LIKE, inputs, 1, attrs, count, y, 1, error);
}

/* gather/1 [any] y[i][j][k] = x[i][index[i][j][k]][k] for dim 1; y has index's shape, which exceeds
   x's in no other dimension. An index out of range is an error on the CPU and ends the run on CUDA.
   dim: dimension that index counts in. */
static inline mneme_status mneme_op_gather(
    const mneme_ops* ops, mneme_ctx* ctx, mneme_tensor x, mneme_tensor index, int64_t dim,
    mneme_tensor* y, mneme_error* error) {
  const mneme_tensor inputs[2] = {x, index};
  mneme_attr attrs[1];
  uint32_t count = 0;
  attrs[count++] = mneme_ops_integer("dim", dim);
  return mneme_ops_call(ops, ctx, MNEME_OP_GATHER, inputs, 2, attrs, count, y, 1, error);
}

/* ge/1 [number, no gradient] a >= b; broadcasts. */
static inline mneme_status mneme_op_ge(
    const mneme_ops* ops, mneme_ctx* ctx, mneme_tensor a, mneme_tensor b, mneme_tensor* y,
    mneme_error* error) {
  const mneme_tensor inputs[2] = {a, b};
  return mneme_ops_call(ops, ctx, MNEME_OP_GE, inputs, 2, NULL, 0, y, 1, error);
}
static inline mneme_status mneme_op_ge_scalar_a(
    const mneme_ops* ops, mneme_ctx* ctx, double a, mneme_tensor b, mneme_tensor* y,
    mneme_error* error) {
  const mneme_tensor inputs[2] = {0, b};
  mneme_attr attrs[1];
  uint32_t count = 0;
  attrs[count++] = mneme_ops_real("scalar", a);
  return mneme_ops_call(ops, ctx, MNEME_OP_GE, inputs, 2, attrs, count, y, 1, error);
}
static inline mneme_status mneme_op_ge_scalar(
    const mneme_ops* ops, mneme_ctx* ctx, mneme_tensor a, double b, mneme_tensor* y,
    mneme_error* error) {
  const mneme_tensor inputs[2] = {a, 0};
  mneme_attr attrs[1];
  uint32_t count = 0;
  attrs[count++] = mneme_ops_real("scalar", b);
  return mneme_ops_call(ops, ctx, MNEME_OP_GE, inputs, 2, attrs, count, y, 1, error);
}

/* gelu/1 [float] x * normal_cdf(x), or its tanh approximation. approximate: "none" | "tanh"; absent
   = none. */
static inline mneme_status mneme_op_gelu(
    const mneme_ops* ops, mneme_ctx* ctx, mneme_tensor x, const char* approximate, mneme_tensor* y,
    mneme_error* error) {
  const mneme_tensor inputs[1] = {x};
  mneme_attr attrs[1];
  uint32_t count = 0;
  if (approximate != NULL) {
    attrs[count++] = mneme_ops_text("approximate", approximate);
  }
  return mneme_ops_call(ops, ctx, MNEME_OP_GELU, inputs, 1, attrs, count, y, 1, error);
}

/* gt/1 [number, no gradient] a > b; broadcasts. */
static inline mneme_status mneme_op_gt(
    const mneme_ops* ops, mneme_ctx* ctx, mneme_tensor a, mneme_tensor b, mneme_tensor* y,
    mneme_error* error) {
  const mneme_tensor inputs[2] = {a, b};
  return mneme_ops_call(ops, ctx, MNEME_OP_GT, inputs, 2, NULL, 0, y, 1, error);
}
static inline mneme_status mneme_op_gt_scalar_a(
    const mneme_ops* ops, mneme_ctx* ctx, double a, mneme_tensor b, mneme_tensor* y,
    mneme_error* error) {
  const mneme_tensor inputs[2] = {0, b};
  mneme_attr attrs[1];
  uint32_t count = 0;
  attrs[count++] = mneme_ops_real("scalar", a);
  return mneme_ops_call(ops, ctx, MNEME_OP_GT, inputs, 2, attrs, count, y, 1, error);
}
static inline mneme_status mneme_op_gt_scalar(
    const mneme_ops* ops, mneme_ctx* ctx, mneme_tensor a, double b, mneme_tensor* y,
    mneme_error* error) {
  const mneme_tensor inputs[2] = {a, 0};
  mneme_attr attrs[1];
  uint32_t count = 0;
  attrs[count++] = mneme_ops_real("scalar", b);
  return mneme_ops_call(ops, ctx, MNEME_OP_GT, inputs, 2, attrs, count, y, 1, error);
}

/* index_select/1 [any] The slices of x along dim that index [n] names, in its order. An index out
   of range is an error on the CPU and ends the run on CUDA. dim: dimension that index counts in. */
static inline mneme_status mneme_op_index_select(
    const mneme_ops* ops, mneme_ctx* ctx, mneme_tensor x, mneme_tensor index, int64_t dim,
    mneme_tensor* y, mneme_error* error) {
  const mneme_tensor inputs[2] = {x, index};
  mneme_attr attrs[1];
  uint32_t count = 0;
  attrs[count++] = mneme_ops_integer("dim", dim);
  return mneme_ops_call(ops, ctx, MNEME_OP_INDEX_SELECT, inputs, 2, attrs, count, y, 1, error);
}

/* isfinite/1 [float, no gradient] True where x is neither inf nor NaN. */
static inline mneme_status mneme_op_isfinite(
    const mneme_ops* ops, mneme_ctx* ctx, mneme_tensor x, mneme_tensor* y, mneme_error* error) {
  const mneme_tensor inputs[1] = {x};
  return mneme_ops_call(ops, ctx, MNEME_OP_ISFINITE, inputs, 1, NULL, 0, y, 1, error);
}

/* layer_norm/1 [float] x less its mean over its standard deviation (divisor: the count) along the
   last dimension D, times w [D], plus b [D]. eps: added to the variance; by default 1e-5. */
static inline mneme_status mneme_op_layer_norm(
    const mneme_ops* ops, mneme_ctx* ctx, mneme_tensor x, mneme_tensor w, mneme_tensor b,
    double eps, mneme_tensor* y, mneme_error* error) {
  const mneme_tensor inputs[3] = {x, w, b};
  mneme_attr attrs[1];
  uint32_t count = 0;
  attrs[count++] = mneme_ops_real("eps", eps);
  return mneme_ops_call(ops, ctx, MNEME_OP_LAYER_NORM, inputs, 3, attrs, count, y, 1, error);
}

/* le/1 [number, no gradient] a <= b; broadcasts. */
static inline mneme_status mneme_op_le(
    const mneme_ops* ops, mneme_ctx* ctx, mneme_tensor a, mneme_tensor b, mneme_tensor* y,
    mneme_error* error) {
  const mneme_tensor inputs[2] = {a, b};
  return mneme_ops_call(ops, ctx, MNEME_OP_LE, inputs, 2, NULL, 0, y, 1, error);
}
static inline mneme_status mneme_op_le_scalar_a(
    const mneme_ops* ops, mneme_ctx* ctx, double a, mneme_tensor b, mneme_tensor* y,
    mneme_error* error) {
  const mneme_tensor inputs[2] = {0, b};
  mneme_attr attrs[1];
  uint32_t count = 0;
  attrs[count++] = mneme_ops_real("scalar", a);
  return mneme_ops_call(ops, ctx, MNEME_OP_LE, inputs, 2, attrs, count, y, 1, error);
}
static inline mneme_status mneme_op_le_scalar(
    const mneme_ops* ops, mneme_ctx* ctx, mneme_tensor a, double b, mneme_tensor* y,
    mneme_error* error) {
  const mneme_tensor inputs[2] = {a, 0};
  mneme_attr attrs[1];
  uint32_t count = 0;
  attrs[count++] = mneme_ops_real("scalar", b);
  return mneme_ops_call(ops, ctx, MNEME_OP_LE, inputs, 2, attrs, count, y, 1, error);
}

/* linear/1 [float] x w^T + b: x [..., in], w [out, in], b [out] gives [..., out]. */
static inline mneme_status mneme_op_linear(
    const mneme_ops* ops, mneme_ctx* ctx, mneme_tensor x, mneme_tensor w, mneme_tensor b,
    mneme_tensor* y, mneme_error* error) {
  const mneme_tensor inputs[3] = {x, w, b};
  return mneme_ops_call(ops, ctx, MNEME_OP_LINEAR, inputs, 3, NULL, 0, y, 1, error);
}

/* linspace/1 [float, no gradient] [steps] evenly spaced numbers, both ends included. start: first
   element. end: last element. steps: how many elements. dtype: MNEME_F32 ... of the result; by
   default MNEME_F32. */
static inline mneme_status mneme_op_linspace(
    const mneme_ops* ops, mneme_ctx* ctx, double start, double end, int64_t steps, uint32_t dtype,
    mneme_tensor* y, mneme_error* error) {
  mneme_attr attrs[4];
  uint32_t count = 0;
  attrs[count++] = mneme_ops_real("start", start);
  attrs[count++] = mneme_ops_real("end", end);
  attrs[count++] = mneme_ops_integer("steps", steps);
  attrs[count++] = mneme_ops_integer("dtype", dtype);
  return mneme_ops_call(ops, ctx, MNEME_OP_LINSPACE, NULL, 0, attrs, count, y, 1, error);
}

/* log/1 [float] Natural logarithm; -inf at 0, NaN below. */
static inline mneme_status mneme_op_log(
    const mneme_ops* ops, mneme_ctx* ctx, mneme_tensor x, mneme_tensor* y, mneme_error* error) {
  const mneme_tensor inputs[1] = {x};
  return mneme_ops_call(ops, ctx, MNEME_OP_LOG, inputs, 1, NULL, 0, y, 1, error);
}

/* log1p/1 [float] ln(1 + x), exact near 0. */
static inline mneme_status mneme_op_log1p(
    const mneme_ops* ops, mneme_ctx* ctx, mneme_tensor x, mneme_tensor* y, mneme_error* error) {
  const mneme_tensor inputs[1] = {x};
  return mneme_ops_call(ops, ctx, MNEME_OP_LOG1P, inputs, 1, NULL, 0, y, 1, error);
}

/* log_softmax/1 [float] x minus its log-sum-exp; a row of -inf gives -inf everywhere and gradient
   0. dim: dimension that sums to 1; by default -1. */
static inline mneme_status mneme_op_log_softmax(
    const mneme_ops* ops, mneme_ctx* ctx, mneme_tensor x, int64_t dim, mneme_tensor* y,
    mneme_error* error) {
  const mneme_tensor inputs[1] = {x};
  mneme_attr attrs[1];
  uint32_t count = 0;
  attrs[count++] = mneme_ops_integer("dim", dim);
  return mneme_ops_call(ops, ctx, MNEME_OP_LOG_SOFTMAX, inputs, 1, attrs, count, y, 1, error);
}

/* logaddexp/1 [float] ln(e^a + e^b); broadcasts. -inf where both are -inf; gradient 0 where the
   result is infinite. */
static inline mneme_status mneme_op_logaddexp(
    const mneme_ops* ops, mneme_ctx* ctx, mneme_tensor a, mneme_tensor b, mneme_tensor* y,
    mneme_error* error) {
  const mneme_tensor inputs[2] = {a, b};
  return mneme_ops_call(ops, ctx, MNEME_OP_LOGADDEXP, inputs, 2, NULL, 0, y, 1, error);
}
static inline mneme_status mneme_op_logaddexp_scalar_a(
    const mneme_ops* ops, mneme_ctx* ctx, double a, mneme_tensor b, mneme_tensor* y,
    mneme_error* error) {
  const mneme_tensor inputs[2] = {0, b};
  mneme_attr attrs[1];
  uint32_t count = 0;
  attrs[count++] = mneme_ops_real("scalar", a);
  return mneme_ops_call(ops, ctx, MNEME_OP_LOGADDEXP, inputs, 2, attrs, count, y, 1, error);
}
static inline mneme_status mneme_op_logaddexp_scalar(
    const mneme_ops* ops, mneme_ctx* ctx, mneme_tensor a, double b, mneme_tensor* y,
    mneme_error* error) {
  const mneme_tensor inputs[2] = {a, 0};
  mneme_attr attrs[1];
  uint32_t count = 0;
  attrs[count++] = mneme_ops_real("scalar", b);
  return mneme_ops_call(ops, ctx, MNEME_OP_LOGADDEXP, inputs, 2, attrs, count, y, 1, error);
}

/* logical_and/1 [bool, no gradient] a and b; broadcasts. */
static inline mneme_status mneme_op_logical_and(
    const mneme_ops* ops, mneme_ctx* ctx, mneme_tensor a, mneme_tensor b, mneme_tensor* y,
    mneme_error* error) {
  const mneme_tensor inputs[2] = {a, b};
  return mneme_ops_call(ops, ctx, MNEME_OP_LOGICAL_AND, inputs, 2, NULL, 0, y, 1, error);
}

/* logical_not/1 [bool, no gradient] True where x is false. */
static inline mneme_status mneme_op_logical_not(
    const mneme_ops* ops, mneme_ctx* ctx, mneme_tensor x, mneme_tensor* y, mneme_error* error) {
  const mneme_tensor inputs[1] = {x};
  return mneme_ops_call(ops, ctx, MNEME_OP_LOGICAL_NOT, inputs, 1, NULL, 0, y, 1, error);
}

/* logical_or/1 [bool, no gradient] a or b; broadcasts. */
static inline mneme_status mneme_op_logical_or(
    const mneme_ops* ops, mneme_ctx* ctx, mneme_tensor a, mneme_tensor b, mneme_tensor* y,
    mneme_error* error) {
  const mneme_tensor inputs[2] = {a, b};
  return mneme_ops_call(ops, ctx, MNEME_OP_LOGICAL_OR, inputs, 2, NULL, 0, y, 1, error);
}

/* logsumexp/1 [float] ln of the sum of e^x; -inf of nothing and of a row of -inf, with gradient 0.
   dims: absent = all. keepdim: 1: keep them, extent 1; by default 0. */
static inline mneme_status mneme_op_logsumexp(
    const mneme_ops* ops, mneme_ctx* ctx, mneme_tensor x, const int64_t* dims, uint32_t n_dims,
    int64_t keepdim, mneme_tensor* y, mneme_error* error) {
  const mneme_tensor inputs[1] = {x};
  mneme_attr attrs[2];
  uint32_t count = 0;
  if (dims != NULL) {
    attrs[count++] = mneme_ops_integers("dims", dims, n_dims);
  }
  attrs[count++] = mneme_ops_integer("keepdim", keepdim);
  return mneme_ops_call(ops, ctx, MNEME_OP_LOGSUMEXP, inputs, 1, attrs, count, y, 1, error);
}

/* lt/1 [number, no gradient] a < b; broadcasts. */
static inline mneme_status mneme_op_lt(
    const mneme_ops* ops, mneme_ctx* ctx, mneme_tensor a, mneme_tensor b, mneme_tensor* y,
    mneme_error* error) {
  const mneme_tensor inputs[2] = {a, b};
  return mneme_ops_call(ops, ctx, MNEME_OP_LT, inputs, 2, NULL, 0, y, 1, error);
}
static inline mneme_status mneme_op_lt_scalar_a(
    const mneme_ops* ops, mneme_ctx* ctx, double a, mneme_tensor b, mneme_tensor* y,
    mneme_error* error) {
  const mneme_tensor inputs[2] = {0, b};
  mneme_attr attrs[1];
  uint32_t count = 0;
  attrs[count++] = mneme_ops_real("scalar", a);
  return mneme_ops_call(ops, ctx, MNEME_OP_LT, inputs, 2, attrs, count, y, 1, error);
}
static inline mneme_status mneme_op_lt_scalar(
    const mneme_ops* ops, mneme_ctx* ctx, mneme_tensor a, double b, mneme_tensor* y,
    mneme_error* error) {
  const mneme_tensor inputs[2] = {a, 0};
  mneme_attr attrs[1];
  uint32_t count = 0;
  attrs[count++] = mneme_ops_real("scalar", b);
  return mneme_ops_call(ops, ctx, MNEME_OP_LT, inputs, 2, attrs, count, y, 1, error);
}

/* masked_fill/1 [any] x with value where mask is true; mask broadcasts to x, gradient 0 there.
   value: written where mask is true. */
static inline mneme_status mneme_op_masked_fill(
    const mneme_ops* ops, mneme_ctx* ctx, mneme_tensor x, mneme_tensor mask, double value,
    mneme_tensor* y, mneme_error* error) {
  const mneme_tensor inputs[2] = {x, mask};
  mneme_attr attrs[1];
  uint32_t count = 0;
  attrs[count++] = mneme_ops_real("value", value);
  return mneme_ops_call(ops, ctx, MNEME_OP_MASKED_FILL, inputs, 2, attrs, count, y, 1, error);
}

/* matmul/1 [float] [..., m, k] by [..., k, n] gives [..., m, n]; leading dimensions broadcast, a
   vector is a row in front and a column behind, without that dimension in y. */
static inline mneme_status mneme_op_matmul(
    const mneme_ops* ops, mneme_ctx* ctx, mneme_tensor a, mneme_tensor b, mneme_tensor* y,
    mneme_error* error) {
  const mneme_tensor inputs[2] = {a, b};
  return mneme_ops_call(ops, ctx, MNEME_OP_MATMUL, inputs, 2, NULL, 0, y, 1, error);
}

/* max_pool1d/1 [float] Largest element of each window along T of x [B, C, T]; padding never wins.
   The first of equals gets the gradient. kernel: window. stride: step from window to window; absent
   = kernel. padding: places at both ends, at most kernel / 2; by default 0. dilation: distance
   between a window's places; by default 1. */
static inline mneme_status mneme_op_max_pool1d(
    const mneme_ops* ops, mneme_ctx* ctx, mneme_tensor x, int64_t kernel, int64_t stride,
    int64_t padding, int64_t dilation, mneme_tensor* y, mneme_error* error) {
  const mneme_tensor inputs[1] = {x};
  mneme_attr attrs[4];
  uint32_t count = 0;
  attrs[count++] = mneme_ops_integer("kernel", kernel);
  if (stride != MNEME_OP_ABSENT) {
    attrs[count++] = mneme_ops_integer("stride", stride);
  }
  attrs[count++] = mneme_ops_integer("padding", padding);
  attrs[count++] = mneme_ops_integer("dilation", dilation);
  return mneme_ops_call(ops, ctx, MNEME_OP_MAX_POOL1D, inputs, 1, attrs, count, y, 1, error);
}

/* maximum/1 [number] The larger of a and b, NaN if one is; broadcasts. Equal operands share the
   gradient. */
static inline mneme_status mneme_op_maximum(
    const mneme_ops* ops, mneme_ctx* ctx, mneme_tensor a, mneme_tensor b, mneme_tensor* y,
    mneme_error* error) {
  const mneme_tensor inputs[2] = {a, b};
  return mneme_ops_call(ops, ctx, MNEME_OP_MAXIMUM, inputs, 2, NULL, 0, y, 1, error);
}
static inline mneme_status mneme_op_maximum_scalar_a(
    const mneme_ops* ops, mneme_ctx* ctx, double a, mneme_tensor b, mneme_tensor* y,
    mneme_error* error) {
  const mneme_tensor inputs[2] = {0, b};
  mneme_attr attrs[1];
  uint32_t count = 0;
  attrs[count++] = mneme_ops_real("scalar", a);
  return mneme_ops_call(ops, ctx, MNEME_OP_MAXIMUM, inputs, 2, attrs, count, y, 1, error);
}
static inline mneme_status mneme_op_maximum_scalar(
    const mneme_ops* ops, mneme_ctx* ctx, mneme_tensor a, double b, mneme_tensor* y,
    mneme_error* error) {
  const mneme_tensor inputs[2] = {a, 0};
  mneme_attr attrs[1];
  uint32_t count = 0;
  attrs[count++] = mneme_ops_real("scalar", b);
  return mneme_ops_call(ops, ctx, MNEME_OP_MAXIMUM, inputs, 2, attrs, count, y, 1, error);
}

/* mean/1 [float] Mean; an empty one is an error. dims: dimensions to reduce; absent = all. keepdim:
   1: keep them with extent 1; by default 0. */
static inline mneme_status mneme_op_mean(
    const mneme_ops* ops, mneme_ctx* ctx, mneme_tensor x, const int64_t* dims, uint32_t n_dims,
    int64_t keepdim, mneme_tensor* y, mneme_error* error) {
  const mneme_tensor inputs[1] = {x};
  mneme_attr attrs[2];
  uint32_t count = 0;
  if (dims != NULL) {
    attrs[count++] = mneme_ops_integers("dims", dims, n_dims);
  }
  attrs[count++] = mneme_ops_integer("keepdim", keepdim);
  return mneme_ops_call(ops, ctx, MNEME_OP_MEAN, inputs, 1, attrs, count, y, 1, error);
}

/* minimum/1 [number] The smaller of a and b, NaN if one is; broadcasts. Equal operands share the
   gradient. */
static inline mneme_status mneme_op_minimum(
    const mneme_ops* ops, mneme_ctx* ctx, mneme_tensor a, mneme_tensor b, mneme_tensor* y,
    mneme_error* error) {
  const mneme_tensor inputs[2] = {a, b};
  return mneme_ops_call(ops, ctx, MNEME_OP_MINIMUM, inputs, 2, NULL, 0, y, 1, error);
}
static inline mneme_status mneme_op_minimum_scalar_a(
    const mneme_ops* ops, mneme_ctx* ctx, double a, mneme_tensor b, mneme_tensor* y,
    mneme_error* error) {
  const mneme_tensor inputs[2] = {0, b};
  mneme_attr attrs[1];
  uint32_t count = 0;
  attrs[count++] = mneme_ops_real("scalar", a);
  return mneme_ops_call(ops, ctx, MNEME_OP_MINIMUM, inputs, 2, attrs, count, y, 1, error);
}
static inline mneme_status mneme_op_minimum_scalar(
    const mneme_ops* ops, mneme_ctx* ctx, mneme_tensor a, double b, mneme_tensor* y,
    mneme_error* error) {
  const mneme_tensor inputs[2] = {a, 0};
  mneme_attr attrs[1];
  uint32_t count = 0;
  attrs[count++] = mneme_ops_real("scalar", b);
  return mneme_ops_call(ops, ctx, MNEME_OP_MINIMUM, inputs, 2, attrs, count, y, 1, error);
}

/* mul/1 [number] a * b; broadcasts. */
static inline mneme_status mneme_op_mul(
    const mneme_ops* ops, mneme_ctx* ctx, mneme_tensor a, mneme_tensor b, mneme_tensor* y,
    mneme_error* error) {
  const mneme_tensor inputs[2] = {a, b};
  return mneme_ops_call(ops, ctx, MNEME_OP_MUL, inputs, 2, NULL, 0, y, 1, error);
}
static inline mneme_status mneme_op_mul_scalar_a(
    const mneme_ops* ops, mneme_ctx* ctx, double a, mneme_tensor b, mneme_tensor* y,
    mneme_error* error) {
  const mneme_tensor inputs[2] = {0, b};
  mneme_attr attrs[1];
  uint32_t count = 0;
  attrs[count++] = mneme_ops_real("scalar", a);
  return mneme_ops_call(ops, ctx, MNEME_OP_MUL, inputs, 2, attrs, count, y, 1, error);
}
static inline mneme_status mneme_op_mul_scalar(
    const mneme_ops* ops, mneme_ctx* ctx, mneme_tensor a, double b, mneme_tensor* y,
    mneme_error* error) {
  const mneme_tensor inputs[2] = {a, 0};
  mneme_attr attrs[1];
  uint32_t count = 0;
  attrs[count++] = mneme_ops_real("scalar", b);
  return mneme_ops_call(ops, ctx, MNEME_OP_MUL, inputs, 2, attrs, count, y, 1, error);
}

/* ne/1 [any, no gradient] a != b; broadcasts. */
static inline mneme_status mneme_op_ne(
    const mneme_ops* ops, mneme_ctx* ctx, mneme_tensor a, mneme_tensor b, mneme_tensor* y,
    mneme_error* error) {
  const mneme_tensor inputs[2] = {a, b};
  return mneme_ops_call(ops, ctx, MNEME_OP_NE, inputs, 2, NULL, 0, y, 1, error);
}
static inline mneme_status mneme_op_ne_scalar_a(
    const mneme_ops* ops, mneme_ctx* ctx, double a, mneme_tensor b, mneme_tensor* y,
    mneme_error* error) {
  const mneme_tensor inputs[2] = {0, b};
  mneme_attr attrs[1];
  uint32_t count = 0;
  attrs[count++] = mneme_ops_real("scalar", a);
  return mneme_ops_call(ops, ctx, MNEME_OP_NE, inputs, 2, attrs, count, y, 1, error);
}
static inline mneme_status mneme_op_ne_scalar(
    const mneme_ops* ops, mneme_ctx* ctx, mneme_tensor a, double b, mneme_tensor* y,
    mneme_error* error) {
  const mneme_tensor inputs[2] = {a, 0};
  mneme_attr attrs[1];
  uint32_t count = 0;
  attrs[count++] = mneme_ops_real("scalar", b);
  return mneme_ops_call(ops, ctx, MNEME_OP_NE, inputs, 2, attrs, count, y, 1, error);
}

/* neg/1 [number] -x. */
static inline mneme_status mneme_op_neg(
    const mneme_ops* ops, mneme_ctx* ctx, mneme_tensor x, mneme_tensor* y, mneme_error* error) {
  const mneme_tensor inputs[1] = {x};
  return mneme_ops_call(ops, ctx, MNEME_OP_NEG, inputs, 1, NULL, 0, y, 1, error);
}

/* norm2/1 [float] Square root of the sum of squares; gradient 0 at 0. dims: dimensions to reduce;
   absent = all. keepdim: 1: keep them with extent 1; by default 0. */
static inline mneme_status mneme_op_norm2(
    const mneme_ops* ops, mneme_ctx* ctx, mneme_tensor x, const int64_t* dims, uint32_t n_dims,
    int64_t keepdim, mneme_tensor* y, mneme_error* error) {
  const mneme_tensor inputs[1] = {x};
  mneme_attr attrs[2];
  uint32_t count = 0;
  if (dims != NULL) {
    attrs[count++] = mneme_ops_integers("dims", dims, n_dims);
  }
  attrs[count++] = mneme_ops_integer("keepdim", keepdim);
  return mneme_ops_call(ops, ctx, MNEME_OP_NORM2, inputs, 1, attrs, count, y, 1, error);
}

/* normal_cdf/1 [float] Standard normal distribution function, precise in the lower tail. */
static inline mneme_status mneme_op_normal_cdf(
    const mneme_ops* ops, mneme_ctx* ctx, mneme_tensor x, mneme_tensor* y, mneme_error* error) {
  const mneme_tensor inputs[1] = {x};
  return mneme_ops_call(ops, ctx, MNEME_OP_NORMAL_CDF, inputs, 1, NULL, 0, y, 1, error);
}

/* one_hot/1 [any, no gradient] 1 at [..., index[...]], 0 elsewhere; an index out of range gives a
   row of 0. classes: extent of the new dimension. dtype: of the result; by default MNEME_I64. */
static inline mneme_status mneme_op_one_hot(
    const mneme_ops* ops, mneme_ctx* ctx, mneme_tensor index, int64_t classes, uint32_t dtype,
    mneme_tensor* y, mneme_error* error) {
  const mneme_tensor inputs[1] = {index};
  mneme_attr attrs[2];
  uint32_t count = 0;
  attrs[count++] = mneme_ops_integer("classes", classes);
  attrs[count++] = mneme_ops_integer("dtype", dtype);
  return mneme_ops_call(ops, ctx, MNEME_OP_ONE_HOT, inputs, 1, attrs, count, y, 1, error);
}

/* pad/1 [any] x with constant places added at its ends. pads: (before, after) pairs, last dimension
   first. value: what the new places hold; by default 0.0. */
static inline mneme_status mneme_op_pad(
    const mneme_ops* ops, mneme_ctx* ctx, mneme_tensor x, const int64_t* pads, uint32_t n_pads,
    double value, mneme_tensor* y, mneme_error* error) {
  const mneme_tensor inputs[1] = {x};
  mneme_attr attrs[2];
  uint32_t count = 0;
  attrs[count++] = mneme_ops_integers("pads", pads, n_pads);
  attrs[count++] = mneme_ops_real("value", value);
  return mneme_ops_call(ops, ctx, MNEME_OP_PAD, inputs, 1, attrs, count, y, 1, error);
}

/* permute/1 [any] x with its dimensions in another order. dims: x's dimensions in new order. */
static inline mneme_status mneme_op_permute(
    const mneme_ops* ops, mneme_ctx* ctx, mneme_tensor x, const int64_t* dims, uint32_t n_dims,
    mneme_tensor* y, mneme_error* error) {
  const mneme_tensor inputs[1] = {x};
  mneme_attr attrs[1];
  uint32_t count = 0;
  attrs[count++] = mneme_ops_integers("dims", dims, n_dims);
  return mneme_ops_call(ops, ctx, MNEME_OP_PERMUTE, inputs, 1, attrs, count, y, 1, error);
}

/* pow/1 [float] a to the power of b; broadcasts. */
static inline mneme_status mneme_op_pow(
    const mneme_ops* ops, mneme_ctx* ctx, mneme_tensor a, mneme_tensor b, mneme_tensor* y,
    mneme_error* error) {
  const mneme_tensor inputs[2] = {a, b};
  return mneme_ops_call(ops, ctx, MNEME_OP_POW, inputs, 2, NULL, 0, y, 1, error);
}
static inline mneme_status mneme_op_pow_scalar_a(
    const mneme_ops* ops, mneme_ctx* ctx, double a, mneme_tensor b, mneme_tensor* y,
    mneme_error* error) {
  const mneme_tensor inputs[2] = {0, b};
  mneme_attr attrs[1];
  uint32_t count = 0;
  attrs[count++] = mneme_ops_real("scalar", a);
  return mneme_ops_call(ops, ctx, MNEME_OP_POW, inputs, 2, attrs, count, y, 1, error);
}
static inline mneme_status mneme_op_pow_scalar(
    const mneme_ops* ops, mneme_ctx* ctx, mneme_tensor a, double b, mneme_tensor* y,
    mneme_error* error) {
  const mneme_tensor inputs[2] = {a, 0};
  mneme_attr attrs[1];
  uint32_t count = 0;
  attrs[count++] = mneme_ops_real("scalar", b);
  return mneme_ops_call(ops, ctx, MNEME_OP_POW, inputs, 2, attrs, count, y, 1, error);
}

/* prod/1 [number] Product in x's dtype; 1 of nothing. dim: dimension; absent = all elements.
   keepdim: 1: keep it with extent 1; by default 0. */
static inline mneme_status mneme_op_prod(
    const mneme_ops* ops, mneme_ctx* ctx, mneme_tensor x, int64_t dim, int64_t keepdim,
    mneme_tensor* y, mneme_error* error) {
  const mneme_tensor inputs[1] = {x};
  mneme_attr attrs[2];
  uint32_t count = 0;
  if (dim != MNEME_OP_ABSENT) {
    attrs[count++] = mneme_ops_integer("dim", dim);
  }
  attrs[count++] = mneme_ops_integer("keepdim", keepdim);
  return mneme_ops_call(ops, ctx, MNEME_OP_PROD, inputs, 1, attrs, count, y, 1, error);
}

/* reciprocal/1 [float] 1 / x; inf at 0. */
static inline mneme_status mneme_op_reciprocal(
    const mneme_ops* ops, mneme_ctx* ctx, mneme_tensor x, mneme_tensor* y, mneme_error* error) {
  const mneme_tensor inputs[1] = {x};
  return mneme_ops_call(ops, ctx, MNEME_OP_RECIPROCAL, inputs, 1, NULL, 0, y, 1, error);
}

/* relu/1 [float] max(x, 0); gradient 0 at 0. */
static inline mneme_status mneme_op_relu(
    const mneme_ops* ops, mneme_ctx* ctx, mneme_tensor x, mneme_tensor* y, mneme_error* error) {
  const mneme_tensor inputs[1] = {x};
  return mneme_ops_call(ops, ctx, MNEME_OP_RELU, inputs, 1, NULL, 0, y, 1, error);
}

/* repeat/1 [any] x repeated as a whole along each dimension. repeats: how often, one number a
   dimension. */
static inline mneme_status mneme_op_repeat(
    const mneme_ops* ops, mneme_ctx* ctx, mneme_tensor x, const int64_t* repeats,
    uint32_t n_repeats, mneme_tensor* y, mneme_error* error) {
  const mneme_tensor inputs[1] = {x};
  mneme_attr attrs[1];
  uint32_t count = 0;
  attrs[count++] = mneme_ops_integers("repeats", repeats, n_repeats);
  return mneme_ops_call(ops, ctx, MNEME_OP_REPEAT, inputs, 1, attrs, count, y, 1, error);
}

/* repeat_interleave/1 [any] Each slice of x along dim repeated in place: a a b b. repeats: how
   often. dim: dimension. */
static inline mneme_status mneme_op_repeat_interleave(
    const mneme_ops* ops, mneme_ctx* ctx, mneme_tensor x, int64_t repeats, int64_t dim,
    mneme_tensor* y, mneme_error* error) {
  const mneme_tensor inputs[1] = {x};
  mneme_attr attrs[2];
  uint32_t count = 0;
  attrs[count++] = mneme_ops_integer("repeats", repeats);
  attrs[count++] = mneme_ops_integer("dim", dim);
  return mneme_ops_call(ops, ctx, MNEME_OP_REPEAT_INTERLEAVE, inputs, 1, attrs, count, y, 1, error);
}

/* reshape/1 [any] x's elements in row-major order in another shape. shape: one extent may be -1:
   what is left over. */
static inline mneme_status mneme_op_reshape(
    const mneme_ops* ops, mneme_ctx* ctx, mneme_tensor x, const int64_t* shape, uint32_t n_shape,
    mneme_tensor* y, mneme_error* error) {
  const mneme_tensor inputs[1] = {x};
  mneme_attr attrs[1];
  uint32_t count = 0;
  attrs[count++] = mneme_ops_integers("shape", shape, n_shape);
  return mneme_ops_call(ops, ctx, MNEME_OP_RESHAPE, inputs, 1, attrs, count, y, 1, error);
}

/* roll/1 [any] x shifted along dims; what leaves at the end comes in at the start. shifts: places
   towards larger indices, one a dimension. dims: dimensions. */
static inline mneme_status mneme_op_roll(
    const mneme_ops* ops, mneme_ctx* ctx, mneme_tensor x, const int64_t* shifts, uint32_t n_shifts,
    const int64_t* dims, uint32_t n_dims, mneme_tensor* y, mneme_error* error) {
  const mneme_tensor inputs[1] = {x};
  mneme_attr attrs[2];
  uint32_t count = 0;
  attrs[count++] = mneme_ops_integers("shifts", shifts, n_shifts);
  attrs[count++] = mneme_ops_integers("dims", dims, n_dims);
  return mneme_ops_call(ops, ctx, MNEME_OP_ROLL, inputs, 1, attrs, count, y, 1, error);
}

/* rotate/1 [float] Rotary positions: heads x [B, T, H, d], d even, turn by places [B, T] or [1, T].
   Numbers i and i + d/2 of a head are a point of a plane that turns by place * base^(-2i/d)
   radians, computed in f64. base: above 0; the slowest turn is near 1/base; by default 10000. */
static inline mneme_status mneme_op_rotate(
    const mneme_ops* ops, mneme_ctx* ctx, mneme_tensor x, mneme_tensor places, double base,
    mneme_tensor* y, mneme_error* error) {
  const mneme_tensor inputs[2] = {x, places};
  mneme_attr attrs[1];
  uint32_t count = 0;
  attrs[count++] = mneme_ops_real("base", base);
  return mneme_ops_call(ops, ctx, MNEME_OP_ROTATE, inputs, 2, attrs, count, y, 1, error);
}

/* round/1 [float] Nearest integer, halves to even; gradient 0. */
static inline mneme_status mneme_op_round(
    const mneme_ops* ops, mneme_ctx* ctx, mneme_tensor x, mneme_tensor* y, mneme_error* error) {
  const mneme_tensor inputs[1] = {x};
  return mneme_ops_call(ops, ctx, MNEME_OP_ROUND, inputs, 1, NULL, 0, y, 1, error);
}

/* rsqrt/1 [float] 1 / sqrt(x); inf at 0. */
static inline mneme_status mneme_op_rsqrt(
    const mneme_ops* ops, mneme_ctx* ctx, mneme_tensor x, mneme_tensor* y, mneme_error* error) {
  const mneme_tensor inputs[1] = {x};
  return mneme_ops_call(ops, ctx, MNEME_OP_RSQRT, inputs, 1, NULL, 0, y, 1, error);
}

/* scatter_add/1 [number] x plus src[i][j] at [i][index[i][j]] for dim 1; the order of additions is
   not defined on CUDA. An index out of range is an error on the CPU and ends the run on CUDA. dim:
   dimension that index counts in. */
static inline mneme_status mneme_op_scatter_add(
    const mneme_ops* ops, mneme_ctx* ctx, mneme_tensor x, mneme_tensor index, mneme_tensor src,
    int64_t dim, mneme_tensor* y, mneme_error* error) {
  const mneme_tensor inputs[3] = {x, index, src};
  mneme_attr attrs[1];
  uint32_t count = 0;
  attrs[count++] = mneme_ops_integer("dim", dim);
  return mneme_ops_call(ops, ctx, MNEME_OP_SCATTER_ADD, inputs, 3, attrs, count, y, 1, error);
}

/* searchsorted/1 [number, no gradient] Where each value would be put into the ascending last
   dimension of sorted. One row [n] serves values of any shape; else [..., n] and [..., m] share
   their leading dimensions. right: 0: count of elements < value, 1: <= value; by default 0. */
static inline mneme_status mneme_op_searchsorted(
    const mneme_ops* ops, mneme_ctx* ctx, mneme_tensor sorted, mneme_tensor values, int64_t right,
    mneme_tensor* indices, mneme_error* error) {
  const mneme_tensor inputs[2] = {sorted, values};
  mneme_attr attrs[1];
  uint32_t count = 0;
  attrs[count++] = mneme_ops_integer("right", right);
  return mneme_ops_call(ops, ctx, MNEME_OP_SEARCHSORTED, inputs, 2, attrs, count, indices, 1,
      error);
}

/* sigmoid/1 [float] 1 / (1 + e^-x). */
static inline mneme_status mneme_op_sigmoid(
    const mneme_ops* ops, mneme_ctx* ctx, mneme_tensor x, mneme_tensor* y, mneme_error* error) {
  const mneme_tensor inputs[1] = {x};
  return mneme_ops_call(ops, ctx, MNEME_OP_SIGMOID, inputs, 1, NULL, 0, y, 1, error);
}

/* sign/1 [number] -1, 0 or 1; gradient 0. */
static inline mneme_status mneme_op_sign(
    const mneme_ops* ops, mneme_ctx* ctx, mneme_tensor x, mneme_tensor* y, mneme_error* error) {
  const mneme_tensor inputs[1] = {x};
  return mneme_ops_call(ops, ctx, MNEME_OP_SIGN, inputs, 1, NULL, 0, y, 1, error);
}

/* silu/1 [float] x * sigmoid(x). */
static inline mneme_status mneme_op_silu(
    const mneme_ops* ops, mneme_ctx* ctx, mneme_tensor x, mneme_tensor* y, mneme_error* error) {
  const mneme_tensor inputs[1] = {x};
  return mneme_ops_call(ops, ctx, MNEME_OP_SILU, inputs, 1, NULL, 0, y, 1, error);
}

/* sin/1 [float] Sine of x in radians. */
static inline mneme_status mneme_op_sin(
    const mneme_ops* ops, mneme_ctx* ctx, mneme_tensor x, mneme_tensor* y, mneme_error* error) {
  const mneme_tensor inputs[1] = {x};
  return mneme_ops_call(ops, ctx, MNEME_OP_SIN, inputs, 1, NULL, 0, y, 1, error);
}

/* slice/1 [any] A view of x: indices start, start + step, ... before end, limited to what is there.
   dim: dimension; by default 0. start: first index, negative = from the end; by default 0. end:
   behind the last, negative = from the end; absent = the extent. step: at least 1; by default 1. */
static inline mneme_status mneme_op_slice(
    const mneme_ops* ops, mneme_ctx* ctx, mneme_tensor x, int64_t dim, int64_t start, int64_t end,
    int64_t step, mneme_tensor* y, mneme_error* error) {
  const mneme_tensor inputs[1] = {x};
  mneme_attr attrs[4];
  uint32_t count = 0;
  attrs[count++] = mneme_ops_integer("dim", dim);
  attrs[count++] = mneme_ops_integer("start", start);
  if (end != MNEME_OP_ABSENT) {
    attrs[count++] = mneme_ops_integer("end", end);
  }
  attrs[count++] = mneme_ops_integer("step", step);
  return mneme_ops_call(ops, ctx, MNEME_OP_SLICE, inputs, 1, attrs, count, y, 1, error);
}

/* softmax/1 [float] e^x over its sum; a row of -inf gives 0 everywhere and gradient 0. dim:
   dimension that sums to 1; by default -1. */
static inline mneme_status mneme_op_softmax(
    const mneme_ops* ops, mneme_ctx* ctx, mneme_tensor x, int64_t dim, mneme_tensor* y,
    mneme_error* error) {
  const mneme_tensor inputs[1] = {x};
  mneme_attr attrs[1];
  uint32_t count = 0;
  attrs[count++] = mneme_ops_integer("dim", dim);
  return mneme_ops_call(ops, ctx, MNEME_OP_SOFTMAX, inputs, 1, attrs, count, y, 1, error);
}

/* softplus/1 [float] ln(1 + e^x); x itself above 20. */
static inline mneme_status mneme_op_softplus(
    const mneme_ops* ops, mneme_ctx* ctx, mneme_tensor x, mneme_tensor* y, mneme_error* error) {
  const mneme_tensor inputs[1] = {x};
  return mneme_ops_call(ops, ctx, MNEME_OP_SOFTPLUS, inputs, 1, NULL, 0, y, 1, error);
}

/* sort/1 [number] Sorted elements and where they stood. Equal elements keep their order; NaN is
   larger than anything. dim: dimension to sort along; by default -1. descending: 1: largest first;
   by default 0. */
static inline mneme_status mneme_op_sort(
    const mneme_ops* ops, mneme_ctx* ctx, mneme_tensor x, int64_t dim, int64_t descending,
    mneme_tensor* values, mneme_tensor* indices, mneme_error* error) {
  const mneme_tensor inputs[1] = {x};
  mneme_attr attrs[2];
  uint32_t count = 0;
  mneme_tensor outputs[2];
  mneme_status status = MNEME_OK;
  attrs[count++] = mneme_ops_integer("dim", dim);
  attrs[count++] = mneme_ops_integer("descending", descending);
  status = mneme_ops_call(ops, ctx, MNEME_OP_SORT, inputs, 1, attrs, count, outputs, 2, error);
  if (status == MNEME_OK) {
    *values = outputs[0];
    *indices = outputs[1];
  }
  return status;
}

/* sqrt/1 [float] Square root; NaN below 0. */
static inline mneme_status mneme_op_sqrt(
    const mneme_ops* ops, mneme_ctx* ctx, mneme_tensor x, mneme_tensor* y, mneme_error* error) {
  const mneme_tensor inputs[1] = {x};
  return mneme_ops_call(ops, ctx, MNEME_OP_SQRT, inputs, 1, NULL, 0, y, 1, error);
}

/* square/1 [number] x * x. */
static inline mneme_status mneme_op_square(
    const mneme_ops* ops, mneme_ctx* ctx, mneme_tensor x, mneme_tensor* y, mneme_error* error) {
  const mneme_tensor inputs[1] = {x};
  return mneme_ops_call(ops, ctx, MNEME_OP_SQUARE, inputs, 1, NULL, 0, y, 1, error);
}

/* squeeze/1 [any] x without a dimension of extent 1; another extent is an error. dim: a dimension
   of extent 1. */
static inline mneme_status mneme_op_squeeze(
    const mneme_ops* ops, mneme_ctx* ctx, mneme_tensor x, int64_t dim, mneme_tensor* y,
    mneme_error* error) {
  const mneme_tensor inputs[1] = {x};
  mneme_attr attrs[1];
  uint32_t count = 0;
  attrs[count++] = mneme_ops_integer("dim", dim);
  return mneme_ops_call(ops, ctx, MNEME_OP_SQUEEZE, inputs, 1, attrs, count, y, 1, error);
}

/* stack/1 [any] Parts of one shape along a new dimension. dim: place of the new dimension. */
static inline mneme_status mneme_op_stack(
    const mneme_ops* ops, mneme_ctx* ctx, const mneme_tensor* parts, uint32_t n_parts, int64_t dim,
    mneme_tensor* y, mneme_error* error) {
  mneme_attr attrs[1];
  uint32_t count = 0;
  attrs[count++] = mneme_ops_integer("dim", dim);
  return mneme_ops_call(ops, ctx, MNEME_OP_STACK, parts, n_parts, attrs, count, y, 1, error);
}

/* sub/1 [number] a - b; broadcasts. */
static inline mneme_status mneme_op_sub(
    const mneme_ops* ops, mneme_ctx* ctx, mneme_tensor a, mneme_tensor b, mneme_tensor* y,
    mneme_error* error) {
  const mneme_tensor inputs[2] = {a, b};
  return mneme_ops_call(ops, ctx, MNEME_OP_SUB, inputs, 2, NULL, 0, y, 1, error);
}
static inline mneme_status mneme_op_sub_scalar_a(
    const mneme_ops* ops, mneme_ctx* ctx, double a, mneme_tensor b, mneme_tensor* y,
    mneme_error* error) {
  const mneme_tensor inputs[2] = {0, b};
  mneme_attr attrs[1];
  uint32_t count = 0;
  attrs[count++] = mneme_ops_real("scalar", a);
  return mneme_ops_call(ops, ctx, MNEME_OP_SUB, inputs, 2, attrs, count, y, 1, error);
}
static inline mneme_status mneme_op_sub_scalar(
    const mneme_ops* ops, mneme_ctx* ctx, mneme_tensor a, double b, mneme_tensor* y,
    mneme_error* error) {
  const mneme_tensor inputs[2] = {a, 0};
  mneme_attr attrs[1];
  uint32_t count = 0;
  attrs[count++] = mneme_ops_real("scalar", b);
  return mneme_ops_call(ops, ctx, MNEME_OP_SUB, inputs, 2, attrs, count, y, 1, error);
}

/* sum/1 [number] Sum in x's dtype; 0 of nothing. dims: dimensions to reduce; absent = all. keepdim:
   1: keep them with extent 1; by default 0. */
static inline mneme_status mneme_op_sum(
    const mneme_ops* ops, mneme_ctx* ctx, mneme_tensor x, const int64_t* dims, uint32_t n_dims,
    int64_t keepdim, mneme_tensor* y, mneme_error* error) {
  const mneme_tensor inputs[1] = {x};
  mneme_attr attrs[2];
  uint32_t count = 0;
  if (dims != NULL) {
    attrs[count++] = mneme_ops_integers("dims", dims, n_dims);
  }
  attrs[count++] = mneme_ops_integer("keepdim", keepdim);
  return mneme_ops_call(ops, ctx, MNEME_OP_SUM, inputs, 1, attrs, count, y, 1, error);
}

/* take_along_dim/1 [any] gather/1 with x and index broadcast in the other dimensions. An index out
   of range is an error on the CPU and ends the run on CUDA. dim: dimension that index counts in. */
static inline mneme_status mneme_op_take_along_dim(
    const mneme_ops* ops, mneme_ctx* ctx, mneme_tensor x, mneme_tensor index, int64_t dim,
    mneme_tensor* y, mneme_error* error) {
  const mneme_tensor inputs[2] = {x, index};
  mneme_attr attrs[1];
  uint32_t count = 0;
  attrs[count++] = mneme_ops_integer("dim", dim);
  return mneme_ops_call(ops, ctx, MNEME_OP_TAKE_ALONG_DIM, inputs, 2, attrs, count, y, 1, error);
}

/* tanh/1 [float] Hyperbolic tangent. */
static inline mneme_status mneme_op_tanh(
    const mneme_ops* ops, mneme_ctx* ctx, mneme_tensor x, mneme_tensor* y, mneme_error* error) {
  const mneme_tensor inputs[1] = {x};
  return mneme_ops_call(ops, ctx, MNEME_OP_TANH, inputs, 1, NULL, 0, y, 1, error);
}

/* topk/1 [number] The k largest elements and where they stood. Which of equal elements is chosen is
   not defined; sort/1 defines it. k: how many. dim: dimension to choose along; by default -1.
   largest: 0: the smallest; by default 1. sorted: 0: in any order; by default 1. */
static inline mneme_status mneme_op_topk(
    const mneme_ops* ops, mneme_ctx* ctx, mneme_tensor x, int64_t k, int64_t dim, int64_t largest,
    int64_t sorted, mneme_tensor* values, mneme_tensor* indices, mneme_error* error) {
  const mneme_tensor inputs[1] = {x};
  mneme_attr attrs[4];
  uint32_t count = 0;
  mneme_tensor outputs[2];
  mneme_status status = MNEME_OK;
  attrs[count++] = mneme_ops_integer("k", k);
  attrs[count++] = mneme_ops_integer("dim", dim);
  attrs[count++] = mneme_ops_integer("largest", largest);
  attrs[count++] = mneme_ops_integer("sorted", sorted);
  status = mneme_ops_call(ops, ctx, MNEME_OP_TOPK, inputs, 1, attrs, count, outputs, 2, error);
  if (status == MNEME_OK) {
    *values = outputs[0];
    *indices = outputs[1];
  }
  return status;
}

/* transpose/1 [any] x with two dimensions swapped. dim0: a dimension. dim1: the one to swap it
   with. */
static inline mneme_status mneme_op_transpose(
    const mneme_ops* ops, mneme_ctx* ctx, mneme_tensor x, int64_t dim0, int64_t dim1,
    mneme_tensor* y, mneme_error* error) {
  const mneme_tensor inputs[1] = {x};
  mneme_attr attrs[2];
  uint32_t count = 0;
  attrs[count++] = mneme_ops_integer("dim0", dim0);
  attrs[count++] = mneme_ops_integer("dim1", dim1);
  return mneme_ops_call(ops, ctx, MNEME_OP_TRANSPOSE, inputs, 1, attrs, count, y, 1, error);
}

/* tril/1 [any] x with 0 above a diagonal of its last two dimensions. diagonal: the last one kept;
   by default 0. */
static inline mneme_status mneme_op_tril(
    const mneme_ops* ops, mneme_ctx* ctx, mneme_tensor x, int64_t diagonal, mneme_tensor* y,
    mneme_error* error) {
  const mneme_tensor inputs[1] = {x};
  mneme_attr attrs[1];
  uint32_t count = 0;
  attrs[count++] = mneme_ops_integer("diagonal", diagonal);
  return mneme_ops_call(ops, ctx, MNEME_OP_TRIL, inputs, 1, attrs, count, y, 1, error);
}

/* triu/1 [any] x with 0 below a diagonal of its last two dimensions. diagonal: the first one kept;
   by default 0. */
static inline mneme_status mneme_op_triu(
    const mneme_ops* ops, mneme_ctx* ctx, mneme_tensor x, int64_t diagonal, mneme_tensor* y,
    mneme_error* error) {
  const mneme_tensor inputs[1] = {x};
  mneme_attr attrs[1];
  uint32_t count = 0;
  attrs[count++] = mneme_ops_integer("diagonal", diagonal);
  return mneme_ops_call(ops, ctx, MNEME_OP_TRIU, inputs, 1, attrs, count, y, 1, error);
}

/* unsqueeze/1 [any] x with one more dimension, of extent 1. dim: place of the new dimension, -rank
   - 1 .. rank. */
static inline mneme_status mneme_op_unsqueeze(
    const mneme_ops* ops, mneme_ctx* ctx, mneme_tensor x, int64_t dim, mneme_tensor* y,
    mneme_error* error) {
  const mneme_tensor inputs[1] = {x};
  mneme_attr attrs[1];
  uint32_t count = 0;
  attrs[count++] = mneme_ops_integer("dim", dim);
  return mneme_ops_call(ops, ctx, MNEME_OP_UNSQUEEZE, inputs, 1, attrs, count, y, 1, error);
}

/* var/1 [float] Variance; the count has to exceed correction. dims: dimensions to reduce; absent =
   all. keepdim: 1: keep them with extent 1; by default 0. correction: divisor is the count minus
   this; by default 1. */
static inline mneme_status mneme_op_var(
    const mneme_ops* ops, mneme_ctx* ctx, mneme_tensor x, const int64_t* dims, uint32_t n_dims,
    int64_t keepdim, int64_t correction, mneme_tensor* y, mneme_error* error) {
  const mneme_tensor inputs[1] = {x};
  mneme_attr attrs[3];
  uint32_t count = 0;
  if (dims != NULL) {
    attrs[count++] = mneme_ops_integers("dims", dims, n_dims);
  }
  attrs[count++] = mneme_ops_integer("keepdim", keepdim);
  attrs[count++] = mneme_ops_integer("correction", correction);
  return mneme_ops_call(ops, ctx, MNEME_OP_VAR, inputs, 1, attrs, count, y, 1, error);
}

/* where/1 [any] a where condition is true, else b; broadcasts. The side that is not chosen has
   gradient 0. */
static inline mneme_status mneme_op_where(
    const mneme_ops* ops, mneme_ctx* ctx, mneme_tensor condition, mneme_tensor a, mneme_tensor b,
    mneme_tensor* y, mneme_error* error) {
  const mneme_tensor inputs[3] = {condition, a, b};
  return mneme_ops_call(ops, ctx, MNEME_OP_WHERE, inputs, 3, NULL, 0, y, 1, error);
}
static inline mneme_status mneme_op_where_scalar_a(
    const mneme_ops* ops, mneme_ctx* ctx, mneme_tensor condition, double a, mneme_tensor b,
    mneme_tensor* y, mneme_error* error) {
  const mneme_tensor inputs[3] = {condition, 0, b};
  mneme_attr attrs[1];
  uint32_t count = 0;
  attrs[count++] = mneme_ops_real("a", a);
  return mneme_ops_call(ops, ctx, MNEME_OP_WHERE, inputs, 3, attrs, count, y, 1, error);
}
static inline mneme_status mneme_op_where_scalar(
    const mneme_ops* ops, mneme_ctx* ctx, mneme_tensor condition, mneme_tensor a, double b,
    mneme_tensor* y, mneme_error* error) {
  const mneme_tensor inputs[3] = {condition, a, 0};
  mneme_attr attrs[1];
  uint32_t count = 0;
  attrs[count++] = mneme_ops_real("b", b);
  return mneme_ops_call(ops, ctx, MNEME_OP_WHERE, inputs, 3, attrs, count, y, 1, error);
}

/* zeros_like/1 [any, no gradient] 0 in x's shape and dtype; without a gradient. */
static inline mneme_status mneme_op_zeros_like(
    const mneme_ops* ops, mneme_ctx* ctx, mneme_tensor x, mneme_tensor* y, mneme_error* error) {
  const mneme_tensor inputs[1] = {x};
  return mneme_ops_call(ops, ctx, MNEME_OP_ZEROS_LIKE, inputs, 1, NULL, 0, y, 1, error);
}

/* clang-format on */

#endif /* MNEME_C_OPS_H_ */
