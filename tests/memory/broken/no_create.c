/* Leaves out the two functions that every plugin needs. */
#include "tier.h"

TIER_TABLE(.create = NULL, .destroy = NULL);
TIER_NOTE("");
TIER_ENTRY(table);
