/* Cannot do without host groups that no host has. */
#include "tier.h"

TIER_TABLE(.flags = 0);
TIER_NOTE("mneme.op/1 mneme.telepathy/3 mneme.op/77");
TIER_ENTRY(table);
