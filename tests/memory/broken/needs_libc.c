/* Good, and calls a function of the C library. */
#include <stdlib.h>

#include "tier.h"

static mneme_status init(const mneme_host* host, mneme_get_group_fn get_group, mneme_error* error) {
  (void)host;
  (void)get_group;
  (void)error;
  tier_inits = strtoll(getenv("MNEME_TEST_FIVE"), NULL, 10);
  return MNEME_OK;
}

TIER_TABLE(.init = init);
TIER_NOTE("");
TIER_ENTRY(table);
