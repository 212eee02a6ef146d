/* mneme/op.h: group "mneme.op/1", differentiable tensor operations of the host.
 *
 * An op is named "name/revision" ("matmul/1"). Names and meaning follow the array API and ATen, but the golden values in the host's tests define a revision.
 * `mneme abi ops` prints every schema. Ops run under the host's autograd in their inputs' dtype (autocast is off); mixed dtypes are an error, `cast/1` is explicit. */
#ifndef MNEME_OP_H_
#define MNEME_OP_H_

#include "mneme/abi.h"

#ifdef __cplusplus
extern "C" {
#endif

#define MNEME_GROUP_OP "mneme.op/1"

/* A resolved op; 0 = none. Valid for the process's life. */
typedef uint32_t mneme_op;

enum { MNEME_ATTR_INT = 1, MNEME_ATTR_REAL = 2, MNEME_ATTR_INTS = 3, MNEME_ATTR_TEXT = 4 };

/* One attribute, by name. Absent = the schema's default, unknown = error. */
typedef struct mneme_attr {
  const char* name;
  uint32_t type;
  uint32_t count;      /* MNEME_ATTR_INTS */
  int64_t integer;     /* MNEME_ATTR_INT; booleans are 0 and 1; dtypes are MNEME_F32 ... */
  double real;         /* MNEME_ATTR_REAL */
  const int64_t* ints; /* MNEME_ATTR_INTS */
  const char* text;    /* MNEME_ATTR_TEXT */
} mneme_attr;

typedef struct mneme_op_api {
  uint32_t struct_size;
  uint32_t flags;

  /* [setup] Resolves `count` ops together. The ops may not be called in `create`. Errors: MNEME_E_UNSUPPORTED, with every missing name in the message. */
  mneme_status (*resolve)(mneme_setup* setup, const char* const* names, uint32_t count, mneme_op* out, mneme_error* error);

  /* [any] 1 when `op` works for `dtype` on `device_type`, else 0. */
  int32_t (*supports)(mneme_op op, uint32_t dtype, uint32_t device_type);

  /* [hook] Runs an op. `inputs` may hold 0 where the schema marks an input optional. Fills n_out handles, each with one reference.
   * Errors: MNEME_E_SHAPE, MNEME_E_DTYPE, MNEME_E_INVALID_ARGUMENT, naming the op, its inputs' shapes and what was expected. */
  mneme_status (*call)(mneme_ctx* ctx, mneme_op op, const mneme_tensor* inputs, uint32_t n_in, const mneme_attr* attrs, uint32_t n_attrs, mneme_tensor* outputs,
                       uint32_t n_out, mneme_error* error);
} mneme_op_api;

#ifdef __cplusplus
}
#endif
#endif /* MNEME_OP_H_ */
