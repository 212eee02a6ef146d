/* Table and note disagree about the version. */
#include "tier.h"

TIER_TABLE(.version = "2.0.0");
TIER_NOTE("");
TIER_ENTRY(table);
