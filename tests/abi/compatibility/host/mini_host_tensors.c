/* Tensors of the mini host and its ops. */
#include <math.h>
#include <stdlib.h>

#include "mini_host.h"

/* ---- tensors ------------------------------------------------------------------------------ */

enum { kMostTensors = 4096 };
static tensor all[kMostTensors];
static size_t made;

mneme_tensor tensor_new(uint32_t dtype, uint32_t rank, const int64_t* dims) {
  tensor* t = &all[made];
  uint32_t i = 0;
  if (made == kMostTensors) {
    give_up("too many tensors", "at most 4096 in a run", "more");
  }
  memset(t, 0, sizeof(*t));
  t->dtype = dtype;
  t->rank = rank;
  t->count = 1;
  for (i = 0; i < rank; ++i) {
    t->dims[i] = dims[i];
    t->count *= dims[i];
  }
  t->data = calloc(t->count > 0 ? (size_t)t->count : 1, sizeof(double));
  if (t->data == NULL) {
    give_up("no memory for a tensor", "memory", "none");
  }
  t->references = 1;
  return (mneme_tensor)++made;
}

tensor* tensor_at(mneme_tensor handle) {
  if (handle == 0 || handle > made || all[handle - 1].references <= 0) {
    return NULL;
  }
  return &all[handle - 1];
}

mneme_tensor tensor_handle(const tensor* t) { return (mneme_tensor)(t - all) + 1; }

size_t tensor_mark(void) { return made; }

void tensor_end_from(size_t mark) {
  while (made > mark) {
    free(all[--made].data);
  }
}

mneme_tensor rows_between(mneme_tensor x, int64_t begin, int64_t end) {
  const tensor* from = tensor_at(x);
  const int64_t dims[3] = {from->dims[0], end - begin, from->dims[2]};
  const mneme_tensor out = tensor_new(from->dtype, 3, dims);
  tensor* to = tensor_at(out);
  const size_t lane = (size_t)(dims[1] * dims[2]);
  int64_t b = 0;
  from = tensor_at(x);
  for (b = 0; b < dims[0]; ++b) {
    memcpy(to->data + (size_t)b * lane, from->data + (b * from->dims[1] + begin) * dims[2],
           lane * sizeof(double));
  }
  return out;
}

mneme_tensor rows_joined(mneme_tensor a, mneme_tensor b) {
  const tensor* first = tensor_at(a);
  const tensor* second = tensor_at(b);
  const int64_t dims[3] = {first->dims[0], first->dims[1] + second->dims[1], first->dims[2]};
  const mneme_tensor out = tensor_new(first->dtype, 3, dims);
  double* to = tensor_at(out)->data;
  const int64_t n = first->dims[1] * dims[2];
  const int64_t m = second->dims[1] * dims[2];
  int64_t lane = 0;
  for (lane = 0; lane < dims[0]; ++lane) {
    memcpy(to + lane * (n + m), first->data + lane * n, (size_t)n * sizeof(double));
    memcpy(to + lane * (n + m) + n, second->data + lane * m, (size_t)m * sizeof(double));
  }
  return out;
}

/* ---- ops ---------------------------------------------------------------------------------- */

enum {
  kAdd = 1,
  kSub,
  kMul,
  kDiv,
  kMinimum,
  kMaximum, /* of two operands */
  kSigmoid,
  kTanh, /* of each element */
  kSum,
  kMean,
  kExpand,
  kUnsqueeze,
  kSqueeze,
  kCast,
  kSlice,
  kOpEnd
};
static const char* const kNames[kOpEnd] = {
    NULL,     "add/1", "sub/1",  "mul/1",    "div/1",       "minimum/1", "maximum/1", "sigmoid/1",
    "tanh/1", "sum/1", "mean/1", "expand/1", "unsqueeze/1", "squeeze/1", "cast/1",    "slice/1"};

mneme_op op_find(const char* name) {
  mneme_op op = 0;
  for (op = 1; op < kOpEnd; ++op) {
    if (strcmp(kNames[op], name) == 0) {
      return op;
    }
  }
  return 0;
}

typedef struct attrs {
  const mneme_attr* all;
  uint32_t count;
} attrs;

static const mneme_attr* attr_of(attrs given, const char* name) {
  uint32_t i = 0;
  for (i = 0; i < given.count; ++i) {
    if (strcmp(given.all[i].name, name) == 0) {
      return &given.all[i];
    }
  }
  return NULL;
}

static int64_t integer_of(attrs given, const char* name, int64_t otherwise) {
  const mneme_attr* attr = attr_of(given, name);
  return attr != NULL ? attr->integer : otherwise;
}

/* Where element i of a tensor of `shape` lies in `from`, which broadcasts to it. */
static int64_t broadcast_index(const tensor* shape, const tensor* from, int64_t i) {
  int64_t index = 0;
  int64_t step = 1;
  uint32_t k = 0;
  for (k = 0; k < shape->rank; ++k) {
    const uint32_t dim = shape->rank - 1 - k;
    const int64_t at = i % shape->dims[dim];
    i /= shape->dims[dim];
    if (k < from->rank) {
      const uint32_t other = from->rank - 1 - k;
      if (from->dims[other] != 1) {
        index += at * step;
      }
      step *= from->dims[other];
    }
  }
  return index;
}

/* The shape that both broadcast to; 0 = none. */
static int broadcast_dims(const tensor* a, const tensor* b, uint32_t* rank, int64_t* dims) {
  uint32_t k = 0;
  *rank = a->rank > b->rank ? a->rank : b->rank;
  for (k = 0; k < *rank; ++k) {
    const int64_t n = k < a->rank ? a->dims[a->rank - 1 - k] : 1;
    const int64_t m = k < b->rank ? b->dims[b->rank - 1 - k] : 1;
    if (n != m && n != 1 && m != 1) {
      return 0;
    }
    dims[*rank - 1 - k] = n == 1 ? m : n;
  }
  return 1;
}

static double combined(mneme_op op, double a, double b) {
  switch (op) {
    case kAdd:
      return a + b;
    case kSub:
      return a - b;
    case kMul:
      return a * b;
    case kDiv:
      return a / b;
    case kMinimum:
      return a < b ? a : b;
    default:
      return a > b ? a : b;
  }
}

static mneme_status run_binary(mneme_op op, const mneme_tensor* inputs, uint32_t n_in, attrs given,
                               mneme_tensor* out, mneme_error* error) {
  const mneme_attr* scalar = attr_of(given, "scalar");
  tensor number = {.rank = 0, .count = 1, .data = NULL, .references = 1};
  double value = scalar != NULL ? scalar->real : 0;
  const tensor* a = tensor_at(inputs[0]);
  const tensor* b = n_in > 1 ? tensor_at(inputs[1]) : NULL;
  tensor* result = NULL;
  int64_t dims[MNEME_MAX_RANK];
  uint32_t rank = 0;
  int64_t i = 0;
  number.data = &value;
  if (scalar != NULL) {
    a = a == NULL ? &number : a;
    b = b == NULL ? &number : b;
  }
  if (a == NULL || b == NULL) {
    return refuse(error, MNEME_E_INVALID_ARGUMENT, "an op of two operands lacks one");
  }
  if (a != &number && b != &number && a->dtype != b->dtype) {
    return refuse(error, MNEME_E_DTYPE, "operands of two dtypes");
  }
  if (!broadcast_dims(a, b, &rank, dims)) {
    return refuse(error, MNEME_E_SHAPE, "operands that do not broadcast");
  }
  *out = tensor_new(a == &number ? b->dtype : a->dtype, rank, dims);
  result = tensor_at(*out);
  for (i = 0; i < result->count; ++i) {
    result->data[i] = combined(op, a->data[broadcast_index(result, a, i)],
                               b->data[broadcast_index(result, b, i)]);
  }
  return MNEME_OK;
}

static uint32_t dim_of(int64_t dim, uint32_t rank) {
  return (uint32_t)(dim < 0 ? dim + (int64_t)rank : dim);
}

static mneme_status run_reduction(mneme_op op, const tensor* x, attrs given, mneme_tensor* out) {
  const mneme_attr* dims = attr_of(given, "dims");
  const int keeps = integer_of(given, "keepdim", 0) != 0;
  int is_reduced[MNEME_MAX_RANK] = {0};
  int64_t kept[MNEME_MAX_RANK];
  int64_t left[MNEME_MAX_RANK];
  uint32_t n_left = 0;
  uint32_t i = 0;
  int64_t e = 0;
  int64_t many = 1;
  mneme_tensor wide = 0;
  tensor* sums = NULL;
  for (i = 0; dims != NULL && i < dims->count; ++i) {
    is_reduced[dim_of(dims->ints[i], x->rank)] = 1;
  }
  for (i = 0; i < x->rank; ++i) {
    const int gone = dims == NULL || is_reduced[i];
    kept[i] = gone ? 1 : x->dims[i];
    many *= gone ? x->dims[i] : 1;
    if (!gone || keeps) {
      left[n_left++] = kept[i];
    }
  }
  wide = tensor_new(x->dtype, x->rank, kept);
  sums = tensor_at(wide);
  for (e = 0; e < x->count; ++e) {
    sums->data[broadcast_index(x, sums, e)] += x->data[e];
  }
  *out = tensor_new(x->dtype, n_left, left);
  for (e = 0; e < sums->count; ++e) {
    tensor_at(*out)->data[e] = sums->data[e] / (op == kMean ? (double)many : 1.0);
  }
  return MNEME_OK;
}

static mneme_status run_expand(const tensor* x, attrs given, mneme_tensor* out,
                               mneme_error* error) {
  const mneme_attr* shape = attr_of(given, "shape");
  int64_t dims[MNEME_MAX_RANK];
  uint32_t i = 0;
  int64_t e = 0;
  if (shape == NULL || shape->count < x->rank || shape->count > MNEME_MAX_RANK) {
    return refuse(error, MNEME_E_SHAPE, "expand to a shape that does not fit");
  }
  for (i = 0; i < shape->count; ++i) {
    const int64_t old =
        i + x->rank >= shape->count ? x->dims[i + x->rank - shape->count] : (int64_t)1;
    dims[i] = shape->ints[i] == -1 ? old : shape->ints[i];
    if (old != 1 && old != dims[i]) {
      return refuse(error, MNEME_E_SHAPE, "expand of an extent that is not 1");
    }
  }
  *out = tensor_new(x->dtype, shape->count, dims);
  for (e = 0; e < tensor_at(*out)->count; ++e) {
    tensor_at(*out)->data[e] = x->data[broadcast_index(tensor_at(*out), x, e)];
  }
  return MNEME_OK;
}

static mneme_status run_slice(const tensor* x, attrs given, mneme_tensor* out) {
  const uint32_t dim = dim_of(integer_of(given, "dim", 0), x->rank);
  const int64_t extent = x->dims[dim];
  int64_t first = integer_of(given, "start", 0);
  int64_t end = integer_of(given, "end", extent);
  int64_t dims[MNEME_MAX_RANK];
  int64_t inner = 1;
  uint32_t i = 0;
  int64_t e = 0;
  first = first < 0 ? first + extent : first;
  end = end < 0 ? end + extent : end;
  memcpy(dims, x->dims, sizeof(dims));
  dims[dim] = end - first;
  for (i = dim + 1; i < x->rank; ++i) {
    inner *= x->dims[i];
  }
  *out = tensor_new(x->dtype, x->rank, dims);
  for (e = 0; e < tensor_at(*out)->count; ++e) {
    const int64_t outer = e / (inner * dims[dim]);
    const int64_t at = e / inner % dims[dim] + first;
    tensor_at(*out)->data[e] = x->data[(outer * extent + at) * inner + e % inner];
  }
  return MNEME_OK;
}

/* The same elements under another shape. */
static mneme_status run_reshape(mneme_op op, const tensor* x, attrs given, mneme_tensor* out,
                                mneme_error* error) {
  int64_t dims[MNEME_MAX_RANK];
  const uint32_t dim = dim_of(integer_of(given, "dim", 0), x->rank + (op == kUnsqueeze ? 1u : 0u));
  memcpy(dims, x->dims, sizeof(dims));
  if (op == kUnsqueeze) {
    if (x->rank == MNEME_MAX_RANK) {
      return refuse(error, MNEME_E_SHAPE, "unsqueeze beyond the largest rank");
    }
    memmove(dims + dim + 1, dims + dim, (x->rank - dim) * sizeof(dims[0]));
    dims[dim] = 1;
    *out = tensor_new(x->dtype, x->rank + 1, dims);
  } else {
    if (x->dims[dim] != 1) {
      return refuse(error, MNEME_E_SHAPE, "squeeze of an extent that is not 1");
    }
    memmove(dims + dim, dims + dim + 1, (x->rank - dim - 1) * sizeof(dims[0]));
    *out = tensor_new(x->dtype, x->rank - 1, dims);
  }
  memcpy(tensor_at(*out)->data, x->data, (size_t)x->count * sizeof(double));
  return MNEME_OK;
}

static mneme_status run_elements(mneme_op op, const tensor* x, attrs given, mneme_tensor* out) {
  const uint32_t dtype = op == kCast ? (uint32_t)integer_of(given, "dtype", x->dtype) : x->dtype;
  int64_t e = 0;
  *out = tensor_new(dtype, x->rank, x->dims);
  for (e = 0; e < x->count; ++e) {
    double value = x->data[e];
    if (op == kSigmoid) {
      value = 1 / (1 + exp(-value));
    } else if (op == kTanh) {
      value = tanh(value);
    } else if (dtype == MNEME_F32) {
      value = (double)(float)value;
    }
    tensor_at(*out)->data[e] = value;
  }
  return MNEME_OK;
}

mneme_status op_run(mneme_op op, const mneme_tensor* inputs, uint32_t n_in, const mneme_attr* given,
                    uint32_t n_attrs, mneme_tensor* out, mneme_error* error) {
  const attrs all_attrs = {given, n_attrs};
  const tensor* x = NULL;
  if (op == 0 || op >= kOpEnd || n_in == 0 || inputs == NULL) {
    return refuse(error, MNEME_E_INVALID_ARGUMENT, "an op that was not resolved, or no inputs");
  }
  if (op <= kMaximum) {
    return run_binary(op, inputs, n_in, all_attrs, out, error);
  }
  x = tensor_at(inputs[0]);
  if (x == NULL) {
    return refuse(error, MNEME_E_INVALID_ARGUMENT, "an op of a handle that is dead or 0");
  }
  switch (op) {
    case kSum:
    case kMean:
      return run_reduction(op, x, all_attrs, out);
    case kExpand:
      return run_expand(x, all_attrs, out, error);
    case kUnsqueeze:
    case kSqueeze:
      return run_reshape(op, x, all_attrs, out, error);
    case kSlice:
      return run_slice(x, all_attrs, out);
    default:
      return run_elements(op, x, all_attrs, out);
  }
}

/* ---- attention ---------------------------------------------------------------------------- */

/* Scores of one query to `scores`, their log-sum-exp is returned. */
static double score(const tensor* q, const tensor* k, double scale, const int64_t at[3],
                    double* scores) {
  const int64_t heads = q->dims[2];
  const int64_t width = q->dims[3];
  const double* query = q->data + ((at[0] * q->dims[1] + at[1]) * heads + at[2]) * width;
  double most = -HUGE_VAL;
  double sum = 0;
  int64_t j = 0;
  int64_t c = 0;
  for (j = 0; j < k->dims[1]; ++j) {
    const double* key = k->data + ((at[0] * k->dims[1] + j) * heads + at[2]) * width;
    scores[j] = 0;
    for (c = 0; c < width; ++c) {
      scores[j] += query[c] * key[c];
    }
    scores[j] *= scale;
    most = scores[j] > most ? scores[j] : most;
  }
  for (j = 0; j < k->dims[1]; ++j) {
    sum += exp(scores[j] - most);
  }
  return most + log(sum);
}

mneme_status attend(const mneme_attention* call, mneme_tensor* z, mneme_tensor* lse,
                    mneme_error* error) {
  const tensor* q = tensor_at(call->q);
  const tensor* k = tensor_at(call->k);
  const tensor* v = tensor_at(call->v);
  double scores[64];
  double scale = call->scale;
  int64_t at[3];
  int64_t lse_dims[3];
  if (q == NULL || k == NULL || v == NULL || call->mask != MNEME_MASK_FULL || call->bias != 0 ||
      k->dims[1] > 64) {
    return refuse(error, MNEME_E_UNSUPPORTED, "this host has full attention of q, k and v alone");
  }
  if (scale == 0) {
    scale = 1.0 / sqrt((double)q->dims[3]);
  }
  lse_dims[0] = q->dims[0];
  lse_dims[1] = q->dims[2];
  lse_dims[2] = q->dims[1];
  *z = tensor_new(q->dtype, 4, q->dims);
  *lse = tensor_new(q->dtype, 3, lse_dims);
  for (at[0] = 0; at[0] < q->dims[0]; ++at[0]) {
    for (at[1] = 0; at[1] < q->dims[1]; ++at[1]) {
      for (at[2] = 0; at[2] < q->dims[2]; ++at[2]) {
        const int64_t width = q->dims[3];
        double* row =
            tensor_at(*z)->data + ((at[0] * q->dims[1] + at[1]) * q->dims[2] + at[2]) * width;
        const double total = score(q, k, scale, at, scores);
        int64_t j = 0;
        int64_t c = 0;
        for (j = 0; j < k->dims[1]; ++j) {
          const double* value = v->data + ((at[0] * k->dims[1] + j) * q->dims[2] + at[2]) * width;
          for (c = 0; c < width; ++c) {
            row[c] += exp(scores[j] - total) * value[c];
          }
        }
        tensor_at(*lse)->data[(at[0] * lse_dims[1] + at[2]) * lse_dims[2] + at[1]] = total;
      }
    }
  }
  return MNEME_OK;
}
