/* mneme/tensor.h: group "mneme.tensor/1": what a plugin may ask about tensors, references to them,
 * and tensors from values of its own. Values of tensors cannot be read: a hook's sequence of ops
 * depends on shapes, configuration and CPU counts alone. */
#ifndef MNEME_TENSOR_H_
#define MNEME_TENSOR_H_

#include "mneme/abi.h"

#ifdef __cplusplus
extern "C" {
#endif

#define MNEME_GROUP_TENSOR "mneme.tensor/1"

typedef struct mneme_tensor_api {
  uint32_t struct_size;
  uint32_t flags;

  /* [hook] Shape and element type of `t`. All tensors of a segment are on its device
   * (mneme_segment.device_type).
   * Errors: MNEME_E_SHAPE for a tensor of more than MNEME_MAX_RANK dims. */
  mneme_status (*shape)(mneme_ctx* ctx, mneme_tensor t, mneme_shape* out, mneme_error* error);

  /* [hook] Adds a reference to `t`, borrowed or not (for wrappers that copy handles). */
  mneme_status (*retain)(mneme_ctx* ctx, mneme_tensor t, mneme_error* error);

  /* [hook] Gives back one reference; the handle is dead when none is left, which frees the memory
   * when no gradient needs it. 0 is allowed and does nothing.
   * Errors: MNEME_E_INVALID_ARGUMENT for a borrowed handle that was not retained. */
  mneme_status (*release)(mneme_ctx* ctx, mneme_tensor t, mneme_error* error);

  /* [hook] A tensor on the segment's device with the values at `data`: contiguous, row-major,
   * `bytes` of them, copied before the call returns. No gradient. *out carries one reference.
   * Errors: MNEME_E_SHAPE when `bytes` is not what shape and dtype need, for a negative extent and
   * for more than MNEME_MAX_RANK dims. */
  mneme_status (*from_data)(mneme_ctx* ctx, const mneme_shape* shape, const void* data,
                            uint64_t bytes, mneme_tensor* out, mneme_error* error);

  /* Constants: tensors that are pure functions of the instance's configuration and of CPU counts (a
   * ridge matrix for one segment length, say). The host keeps them by `key`, for each instance and
   * device, and drops them with the instance. */

  /* [hook] The constant called `key`, borrowed; *out = 0 when there is none yet. */
  mneme_status (*constant_find)(mneme_ctx* ctx, const char* key, mneme_tensor* out,
                                mneme_error* error);

  /* [hook] Keeps a constant made from the values at `data`, in place of an older one of this key,
   * and gives it, borrowed. Arguments and errors as from_data. */
  mneme_status (*constant_put)(mneme_ctx* ctx, const char* key, const mneme_shape* shape,
                               const void* data, uint64_t bytes, mneme_tensor* out,
                               mneme_error* error);
} mneme_tensor_api;

#ifdef __cplusplus
}
#endif
#endif /* MNEME_TENSOR_H_ */
