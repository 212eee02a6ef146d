/* Its init fails without a word, with a text that does not end. */
#include <string.h>

#include "tier.h"

static mneme_status init(const mneme_host* host, mneme_get_group_fn get_group, mneme_error* error) {
  (void)host;
  (void)get_group;
  memset(error->file, 'f', sizeof(error->file));
  error->line = 3;
  error->native_code = 12;
  return 99;
}

TIER_TABLE(.init = init);
TIER_NOTE("");
TIER_ENTRY(table);
