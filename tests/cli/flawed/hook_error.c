/* A tier whose `read` fails with a text of its own. */
#include "mneme/plugin.h"

static mneme_status make(const mneme_host* host, mneme_setup* setup, const mneme_model_info* model,
                         mneme_tier_traits* traits, void** instance, mneme_error* error) {
  (void)host;
  (void)setup;
  (void)model;
  (void)error;
  traits->sites = MNEME_SITE_HEADS;
  *instance = NULL;
  return MNEME_OK;
}

static void destroy(void* instance) { (void)instance; }

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
