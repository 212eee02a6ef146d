/* Its table's size is no multiple of 8, as uninitialised memory would be. */
#include "tier.h"

TIER_TABLE(.struct_size = 123);
TIER_NOTE("");
TIER_ENTRY(table);
