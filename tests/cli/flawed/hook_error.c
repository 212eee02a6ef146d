/* A tier whose `read` fails with a text of its own. */
#define FLAWED_SITES MNEME_SITE_HEADS
#define FLAWED_WANTS 0
#include "tier.h"

static mneme_status read_memory(void* instance, mneme_ctx* ctx, const mneme_queries* in,
                                mneme_read* out, mneme_error* error) {
  (void)instance;
  (void)ctx;
  (void)in;
  (void)out;
  return MNEME_FAIL(error, MNEME_E_NUMERIC, "the ridge matrix has no inverse");
}

static const mneme_plugin table = {
    .struct_size = (uint32_t)sizeof(mneme_plugin),
    .id = "org.example.hook_error",
    .version = "1.0.0",
    .summary = "A tier whose read hook fails.",
    .create = make,
    .destroy = destroy,
    .read = read_memory,
};

MNEME_PLUGIN_ENTRY(table, "org.example.hook_error", "1.0.0", "mneme.op/1");
