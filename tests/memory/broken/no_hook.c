/* Has no hook, so it could never do anything. */
#include "tier.h"

TIER_TABLE(.read = NULL);
TIER_NOTE("");
TIER_ENTRY(table);
