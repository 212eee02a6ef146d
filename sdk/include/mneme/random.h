/* mneme/random.h: group "mneme.random/1", a counter-based generator. */
#ifndef MNEME_RANDOM_H_
#define MNEME_RANDOM_H_

#include "mneme/abi.h"

#ifdef __cplusplus
extern "C" {
#endif

#define MNEME_GROUP_RANDOM "mneme.random/1"

typedef struct mneme_random_api {
  uint32_t struct_size;
  uint32_t flags;

  /* [hook] Draws [B, ...] keyed by (seed, tier, layer, the lane's stream, segment, name): a lane's draws do not depend on other lanes, and the same name in the same
   * segment gives the same draws; in an open segment each step has its own. shape->dims[0] must be B; dtype f32 or f64. uniform: [0,1); normal: mean 0, deviation 1. Named draws can be recorded and replayed. */
  mneme_status (*uniform)(mneme_ctx* ctx, const char* name, const mneme_shape* shape, mneme_tensor* out, mneme_error* error);
  mneme_status (*normal)(mneme_ctx* ctx, const char* name, const mneme_shape* shape, mneme_tensor* out, mneme_error* error);
} mneme_random_api;

#ifdef __cplusplus
}
#endif
#endif /* MNEME_RANDOM_H_ */
