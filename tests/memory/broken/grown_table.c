/* A table of a later ABI minor: fields that this host does not know follow the known ones, and it can
 * do without a group that this host lacks. */
#include "tier.h"

static const struct {
  mneme_plugin known;
  uint64_t later[4];
} table = {.known = {.struct_size = (uint32_t)(sizeof(mneme_plugin) + 32),
                     .id = TEST_ID,
                     .version = TEST_VERSION,
                     .create = tier_create,
                     .destroy = tier_destroy,
                     .read = tier_read},
           .later = {1, 2, 3, 4}};

TIER_NOTE("mneme.op/1 mneme.telepathy/3?");
TIER_ENTRY(table.known);
