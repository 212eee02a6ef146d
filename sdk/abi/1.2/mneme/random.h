/* mneme/random.h: group "mneme.random/1", a counter-based generator, the only source of random
 * numbers that a plugin may use: runs must resume bit for bit. */
#ifndef MNEME_RANDOM_H_
#define MNEME_RANDOM_H_

#include "mneme/abi.h"

#ifdef __cplusplus
extern "C" {
#endif

#define MNEME_GROUP_RANDOM "mneme.random/1"

/* Draws are keyed by (seed, tier, layer, stream, segment, name), in the later steps of an open
 * segment by the step too. The stream is a number that identifies the token sequence which the lane
 * reads. So a lane's draws do not depend on other lanes, the same name gives the same draws in all
 * hooks of one layer and segment, and each step of an open segment has draws of its own. Named
 * draws can be recorded and replayed.
 *
 * shape: dims[0] must be B, at most MNEME_MAX_RANK dims; dtype MNEME_F32 or MNEME_F64. *out is on
 * the segment's device, without gradient, and carries one reference.
 * Errors: MNEME_E_INVALID_ARGUMENT for no name; MNEME_E_SHAPE; MNEME_E_DTYPE. */
typedef struct mneme_random_api {
  uint32_t struct_size;
  uint32_t flags;

  /* [hook] Draws from the uniform law on [0,1). */
  mneme_status (*uniform)(mneme_ctx* ctx, const char* name, const mneme_shape* shape,
                          mneme_tensor* out, mneme_error* error);

  /* [hook] Draws from the normal law of mean 0 and standard deviation 1. */
  mneme_status (*normal)(mneme_ctx* ctx, const char* name, const mneme_shape* shape,
                         mneme_tensor* out, mneme_error* error);
} mneme_random_api;

#ifdef __cplusplus
}
#endif
#endif /* MNEME_RANDOM_H_ */
