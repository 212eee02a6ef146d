/* Table and note disagree about the id. */
#include "tier.h"

TIER_TABLE(.id = "org.example.other");
TIER_NOTE("");
TIER_ENTRY(table);
