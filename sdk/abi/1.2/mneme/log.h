/* mneme/log.h: group "mneme.log/1", lines for the host's log. */
#ifndef MNEME_LOG_H_
#define MNEME_LOG_H_

#include "mneme/abi.h"

#ifdef __cplusplus
extern "C" {
#endif

#define MNEME_GROUP_LOG "mneme.log/1"

enum { MNEME_LOG_DEBUG = 1, MNEME_LOG_INFO = 2, MNEME_LOG_WARNING = 3, MNEME_LOG_ERROR = 4 };

typedef struct mneme_log_api {
  uint32_t struct_size;
  uint32_t flags;

  /* [any] Logs one line: `length` bytes at `text`, copied before the call returns. The host puts
   * `plugin_id`, the plugin's own, before it, and does not call back into the plugin. What `create`
   * logs in an experiment is also printed by `mneme plugins describe NAME --in EXP`.
   * Cannot fail: a line of another level than MNEME_LOG_* is logged as a warning that says so, and
   * one that cannot be written is dropped. */
  void (*write)(const mneme_host* host, uint32_t level, const char* plugin_id, const char* text,
                uint64_t length);
} mneme_log_api;

#ifdef __cplusplus
}
#endif
#endif /* MNEME_LOG_H_ */
