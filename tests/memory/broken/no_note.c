/* Exports the entry point but carries no note. */
#include "tier.h"

TIER_TABLE(.flags = 0);
TIER_ENTRY(table);
