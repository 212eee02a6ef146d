/* Carries a note, but exports something else than the entry point. */
#include "tier.h"

TIER_TABLE(.flags = 0);
TIER_NOTE("");
MNEME_EXPORT const mneme_plugin* tier_table(void);
MNEME_EXPORT const mneme_plugin* tier_table(void) { return &table; }
