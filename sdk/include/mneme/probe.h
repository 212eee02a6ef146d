/* mneme/probe.h: group "mneme.probe/1", named tensors that a plugin publishes only when somebody asks. */
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

  /* [hook] 1 when somebody wants `name` in this segment. When 0, compute nothing for it. Common names: "attention.memory" [B,H,T,m], "memory.write", "memory.span". */
  int32_t (*wanted)(mneme_ctx* ctx, const char* name);

  /* [hook] Publishes a tensor (detached). Unwanted names are dropped. */
  mneme_status (*publish)(mneme_ctx* ctx, const char* name, mneme_tensor value, mneme_error* error);
} mneme_probe_api;

#ifdef __cplusplus
}
#endif
#endif /* MNEME_PROBE_H_ */
