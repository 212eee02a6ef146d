/* The smallest tier that loads, for test plugins to spoil: one header, one flaw a file.
 *
 *   TIER_TABLE(.id = "org.example.other")   defines `table`, a good table with some fields replaced
 *   TIER_NOTE(features)                     the note of TEST_ID 1.0.0
 *   TIER_ENTRY(table)                       the entry point of the SDK
 *
 * `create` reports through the traits: max_segment = TEST_ANSWER (which build this is),
 * context_rows = how often `init` has run in this copy of the library. */
#ifndef MNEME_TESTS_MEMORY_BROKEN_TIER_H_
#define MNEME_TESTS_MEMORY_BROKEN_TIER_H_

#include "mneme/sdk.h"

#ifndef TEST_ID
#define TEST_ID "org.example.tier"
#endif
#ifndef TEST_ANSWER
#define TEST_ANSWER 1
#endif
#define TEST_VERSION "1.0.0"

static int64_t tier_inits = 0;

static inline mneme_status tier_init(const mneme_host* host, mneme_get_group_fn get_group,
                                     mneme_error* error) {
  (void)host;
  (void)get_group;
  (void)error;
  ++tier_inits;
  return MNEME_OK;
}

static inline mneme_status tier_create(const mneme_host* host, mneme_setup* setup,
                                       const mneme_model_info* model, mneme_tier_traits* traits,
                                       void** instance, mneme_error* error) {
  (void)host;
  (void)setup;
  (void)model;
  (void)error;
  traits->max_segment = TEST_ANSWER;
  traits->context_rows = tier_inits;
  *instance = NULL;
  return MNEME_OK;
}

static inline void tier_destroy(void* instance) { (void)instance; }

static inline mneme_status tier_read(void* instance, mneme_ctx* ctx, const mneme_queries* in,
                                     mneme_read* out, mneme_error* error) {
  (void)instance;
  (void)ctx;
  (void)in;
  (void)error;
  out->merge = MNEME_MERGE_NONE;
  return MNEME_OK;
}

#define TIER_TABLE(...)                                                             \
  static const mneme_plugin table = {.struct_size = (uint32_t)sizeof(mneme_plugin), \
                                     .id = TEST_ID,                                 \
                                     .version = TEST_VERSION,                       \
                                     .summary = "A tier that adds nothing.",        \
                                     .init = tier_init,                             \
                                     .create = tier_create,                         \
                                     .destroy = tier_destroy,                       \
                                     .read = tier_read,                             \
                                     __VA_ARGS__}
#define TIER_NOTE(features) MNEME_PLUGIN_NOTE(TEST_ID, TEST_VERSION, features)
#define TIER_ENTRY(table)                                                     \
  MNEME_EXPORT mneme_status mneme_negotiate_v1(const mneme_host_offer* offer, \
                                               mneme_plugin_answer* answer) { \
    return mneme_sdk_negotiate(offer, answer, &(table));                      \
  }                                                                           \
  typedef int tier_entry_needs_a_semicolon

#endif /* MNEME_TESTS_MEMORY_BROKEN_TIER_H_ */
