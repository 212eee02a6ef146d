/* mneme/parallel.h: group "mneme.parallel/1", the host's own threads, for kernels on the CPU. */
#ifndef MNEME_PARALLEL_H_
#define MNEME_PARALLEL_H_

#include "mneme/abi.h"

#ifdef __cplusplus
extern "C" {
#endif

#define MNEME_GROUP_PARALLEL "mneme.parallel/1"

/* Does the pieces begin .. end - 1 of a piece of work, on one of the host's threads. Cannot fail;
 * may call no function of the host but mneme_parallel_api.run. */
typedef void (*mneme_parallel_body)(void* user, int64_t begin, int64_t end);

typedef struct mneme_parallel_api {
  uint32_t struct_size;
  uint32_t flags;

  /* [any] Calls `body` on disjoint ranges that cover 0 .. count - 1, on the threads that the host
   * computes with, and returns when all are done. Each range but the last has at least `grain`
   * pieces; a grain below 1 counts as 1. Does nothing for a count below 1. Inside a body, and where
   * the host has one thread, it calls body once. `user` is passed back, and the plugin's.
   * How the ranges are cut depends on the number of threads, so results may not depend on it. */
  void (*run)(const mneme_host* host, int64_t count, int64_t grain, mneme_parallel_body body,
              void* user);
} mneme_parallel_api;

#ifdef __cplusplus
}
#endif
#endif /* MNEME_PARALLEL_H_ */
