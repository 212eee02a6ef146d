/* Its table claims to be shorter than that of the first ABI. */
#include "tier.h"

TIER_TABLE(.struct_size = 112);
TIER_NOTE("");
TIER_ENTRY(table);
