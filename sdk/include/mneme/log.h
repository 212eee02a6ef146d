/* mneme/log.h: group "mneme.log/1". */
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

  /* [any] One line of `length` bytes for the host's log; the host adds the plugin's id. Does not call back into the plugin. */
  void (*write)(const mneme_host* host, uint32_t level, const char* plugin_id, const char* text, uint64_t length);
} mneme_log_api;

#ifdef __cplusplus
}
#endif
#endif /* MNEME_LOG_H_ */
