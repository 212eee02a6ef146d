/* A tier whose `read` gives lse [B,H,T] where [B,T,H,d] belongs. */
#define FLAWED_SITES MNEME_SITE_HEADS
#define FLAWED_WANTS MNEME_WANT_READ_LSE
#include "tier.h"

static mneme_status read_memory(void* instance, mneme_ctx* ctx, const mneme_queries* in,
                                mneme_read* out, mneme_error* error) {
  (void)instance;
  (void)ctx;
  (void)error;
  out->merge = MNEME_MERGE_ADD;
  out->out = in->lse;
  return MNEME_OK;
}

static const mneme_plugin table = {
    .struct_size = (uint32_t)sizeof(mneme_plugin),
    .id = "org.example.wrong_shape",
    .version = "1.0.0",
    .summary = "A tier whose read hook gives a wrong shape.",
    .create = make,
    .destroy = destroy,
    .read = read_memory,
};

MNEME_PLUGIN_ENTRY(table, "org.example.wrong_shape", "1.0.0", "mneme.op/1");
