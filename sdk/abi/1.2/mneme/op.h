/* mneme/op.h: group "mneme.op/1", differentiable tensor operations of the host.
 *
 * An op is named "name/revision": "matmul/1". Names and meaning follow the array API standard and
 * ATen, but the golden values in the host's tests define a revision, and a revision freezes inputs,
 * attributes, defaults, broadcasting and dtypes: another meaning is another revision. `mneme abi
 * ops` prints every schema.
 *
 * Ops run under the host's autograd, in their inputs' dtype (autocast is off). Data inputs of mixed
 * dtypes are an error; cast/1 is explicit. A result may share memory with an input (slice/1,
 * reshape/1, ...); nothing is ever written in place. */
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

/* One attribute, by name. Absent = the schema's default, unknown = an error. */
typedef struct mneme_attr {
  const char* name;
  uint32_t type;       /* MNEME_ATTR_* */
  uint32_t count;      /* MNEME_ATTR_INTS */
  int64_t integer;     /* MNEME_ATTR_INT; booleans are 0 and 1; dtypes are MNEME_F32 ... */
  double real;         /* MNEME_ATTR_REAL */
  const int64_t* ints; /* MNEME_ATTR_INTS */
  const char* text;    /* MNEME_ATTR_TEXT */
} mneme_attr;

typedef struct mneme_op_api {
  uint32_t struct_size;
  uint32_t flags;

  /* [setup] Resolves `count` ops together: out[i] is the op called names[i]. They may be called in
   * hooks alone.
   * Errors: MNEME_E_UNSUPPORTED, with every name that this host lacks in the message. */
  mneme_status (*resolve)(mneme_setup* setup, const char* const* names, uint32_t count,
                          mneme_op* out, mneme_error* error);

  /* [any] 1 when `op` works for data of `dtype` on `device_type`, else 0, also for an op, dtype or
   * device that does not exist. */
  int32_t (*supports)(mneme_op op, uint32_t dtype, uint32_t device_type);

  /* [hook] Runs an op. `inputs` are in the schema's order; one that the schema marks optional may
   * be 0, or left out at the end. Attributes are read during the call. Fills n_out handles, one for
   * each output of the schema, each with one reference.
   * Errors, naming the op, its inputs' shapes and dtypes, and what was expected:
   *   MNEME_E_INVALID_ARGUMENT  an op that was not resolved; a number of inputs or outputs, or an
   *                             attribute, that the schema does not have; a needed input that is 0
   *   MNEME_E_SHAPE             inputs that do not fit the schema or each other; a result of more
   *                             than MNEME_MAX_RANK dims
   *   MNEME_E_DTYPE             a dtype that the op does not have; data inputs of mixed dtypes
   *   MNEME_E_DEVICE            inputs on different devices
   *   MNEME_E_CUDA              the device failed */
  mneme_status (*call)(mneme_ctx* ctx, mneme_op op, const mneme_tensor* inputs, uint32_t n_in,
                       const mneme_attr* attrs, uint32_t n_attrs, mneme_tensor* outputs,
                       uint32_t n_out, mneme_error* error);
} mneme_op_api;

#ifdef __cplusplus
}
#endif
#endif /* MNEME_OP_H_ */
