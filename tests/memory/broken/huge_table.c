/* Its table claims more bytes than any table may have. */
#include "tier.h"

TIER_TABLE(.struct_size = 0x7ffffff8);
TIER_NOTE("");
TIER_ENTRY(table);
