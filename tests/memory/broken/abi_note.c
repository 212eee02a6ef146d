/* Its note asks for an ABI that does not exist yet. The constructor proves that no code ran. */
#define _POSIX_C_SOURCE 200809L
#include <stdlib.h>

#include "tier.h"

#undef MNEME_ABI_VERSION
#define MNEME_ABI_VERSION MNEME_ABI_MAKE(0, 99)

__attribute__((constructor)) static void mapped(void) {
  setenv("MNEME_TEST_ABI_NOTE_MAPPED", "1", 1);
}

TIER_TABLE(.flags = 0);
TIER_NOTE("");
TIER_ENTRY(table);
