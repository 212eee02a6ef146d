/* Gives an id at an address where nothing is. */
#include "tier.h"

TIER_TABLE(.id = (const char*)(uintptr_t)0x10);
TIER_NOTE("");
TIER_ENTRY(table);
