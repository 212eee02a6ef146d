/* mneme/tensor.h: group "mneme.tensor/1", what a plugin may ask about tensors, and constants of its own. */
#ifndef MNEME_TENSOR_H_
#define MNEME_TENSOR_H_

#include "mneme/abi.h"

#ifdef __cplusplus
extern "C" {
#endif

#define MNEME_GROUP_TENSOR "mneme.tensor/1"

typedef struct mneme_tensor_info {
  uint32_t struct_size;
  uint32_t flags;
  uint32_t dtype;
  uint32_t device_type;
  uint32_t rank;
  uint32_t reserved;
  int64_t dims[MNEME_MAX_RANK];
} mneme_tensor_info;

typedef struct mneme_tensor_api {
  uint32_t struct_size;
  uint32_t flags;

  /* [hook] Shape, element type and device of `t`. Never its values: a hook's sequence of ops depends on shapes, configuration and CPU counts alone.
   * Errors: MNEME_E_INVALID_ARGUMENT for a dead handle. */
  mneme_status (*info)(mneme_ctx* ctx, mneme_tensor t, mneme_tensor_info* out, mneme_error* error);

  /* [hook] Adds a reference to `t` (for wrappers that copy handles). */
  mneme_status (*retain)(mneme_ctx* ctx, mneme_tensor t, mneme_error* error);

  /* [hook] Gives back one reference; the handle is dead when none is left. Borrowed handles may not be released. 0 is allowed and does nothing. */
  mneme_status (*release)(mneme_ctx* ctx, mneme_tensor t, mneme_error* error);

  /* [hook] A tensor on the segment's device with the values at `data` (contiguous, row-major, `bytes` long, copied before the call returns). No gradient.
   * Errors: MNEME_E_SHAPE when bytes does not match, MNEME_E_OUT_OF_MEMORY. */
  mneme_status (*from_data)(mneme_ctx* ctx, const mneme_shape* shape, const void* data, uint64_t bytes, mneme_tensor* out, mneme_error* error);

  /* [hook] Constants: tensors that are pure functions of the instance's configuration and of CPU counts (a ridge matrix for one segment length, say). The host keeps
   * them per instance and device under `key`, counts their bytes, and drops them with the instance. find: *out = 0 when there is none yet. */
  mneme_status (*constant_find)(mneme_ctx* ctx, const char* key, mneme_tensor* out, mneme_error* error);
  mneme_status (*constant_put)(mneme_ctx* ctx, const char* key, const mneme_shape* shape, const void* data, uint64_t bytes, mneme_tensor* out, mneme_error* error);
} mneme_tensor_api;

#ifdef __cplusplus
}
#endif
#endif /* MNEME_TENSOR_H_ */
