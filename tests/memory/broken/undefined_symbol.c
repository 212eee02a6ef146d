/* Uses a function that no library defines. */
#include "tier.h"

extern mneme_status tier_missing_function(void);

static mneme_status init(const mneme_host* host, mneme_get_group_fn get_group, mneme_error* error) {
  (void)host;
  (void)get_group;
  (void)error;
  return tier_missing_function();
}

TIER_TABLE(.init = init);
TIER_NOTE("");
TIER_ENTRY(table);
