/* mneme/probe.h: group "mneme.probe/1", named tensors that a plugin publishes when somebody asks
 * for them, such as `mneme analyze` (docs/analysis.md lists its names and shapes). */
#ifndef MNEME_PROBE_H_
#define MNEME_PROBE_H_

#include "mneme/abi.h"

#ifdef __cplusplus
extern "C" {
#endif

#define MNEME_GROUP_PROBE "mneme.probe/1"

typedef struct mneme_probe_api {
  uint32_t struct_size;
  uint32_t flags;

  /* [hook] 1 when somebody wants `name` in this segment, else 0, also for a mneme_ctx that is dead.
   * When it is 0, compute nothing for it. */
  int32_t (*wanted)(mneme_ctx* ctx, const char* name);

  /* [hook] Publishes a tensor under `name` and the hook's tier and layer, detached; a later one of
   * the same segment replaces it. Dropped when nobody wants the name. */
  mneme_status (*publish)(mneme_ctx* ctx, const char* name, mneme_tensor value, mneme_error* error);
} mneme_probe_api;

#ifdef __cplusplus
}
#endif
#endif /* MNEME_PROBE_H_ */
