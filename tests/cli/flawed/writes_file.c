/* A plugin that says when its code runs: a constructor writes the file that MNEME_TEST_TRACE names.
 */
#include <stdio.h>
#include <stdlib.h>

#define FLAWED_SITES 0
#define FLAWED_WANTS 0
#include "tier.h"

__attribute__((constructor)) static void leave_trace(void) {
  const char* const path = getenv("MNEME_TEST_TRACE");
  FILE* const file = path == NULL ? NULL : fopen(path, "w");
  if (file != NULL) fclose(file);
}

static mneme_status finish(void* instance, mneme_ctx* ctx, const mneme_finish* in,
                           mneme_error* error) {
  (void)instance;
  (void)ctx;
  (void)in;
  (void)error;
  return MNEME_OK;
}

static const mneme_plugin table = {
    .struct_size = (uint32_t)sizeof(mneme_plugin),
    .id = "org.example.writes_file",
    .version = "1.0.0",
    .summary = "A tier that leaves a trace when it is mapped.",
    .create = make,
    .destroy = destroy,
    .finish = finish,
};

MNEME_PLUGIN_ENTRY(table, "org.example.writes_file", "1.0.0", "mneme.op/1 mneme.log/1?");
