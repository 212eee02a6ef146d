/* Its init gives an error with file and line. */
#include "tier.h"

static mneme_status init(const mneme_host* host, mneme_get_group_fn get_group, mneme_error* error) {
  (void)host;
  (void)get_group;
  return MNEME_FAIL(error, MNEME_E_IO, "cannot read the index /data/index.bin");
}

TIER_TABLE(.init = init);
TIER_NOTE("");
TIER_ENTRY(table);
