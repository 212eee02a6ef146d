/* Linked against another shared library; MNEME_PLUGIN_LIBRARIES may declare it in the note. */
#include "tier.h"

extern int extra_answer(void);

static mneme_status init(const mneme_host* host, mneme_get_group_fn get_group, mneme_error* error) {
  (void)host;
  (void)get_group;
  (void)error;
  tier_inits = extra_answer();
  return MNEME_OK;
}

TIER_TABLE(.init = init);
TIER_NOTE("");
TIER_ENTRY(table);
