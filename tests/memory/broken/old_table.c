/* A table as SDKs wrote it that did not know the declaration of losses. */
#include "tier.h"

static const mneme_plugin table = {.struct_size = (uint32_t)offsetof(mneme_plugin, losses),
                                   .id = TEST_ID,
                                   .version = TEST_VERSION,
                                   .create = tier_create,
                                   .destroy = tier_destroy,
                                   .read = tier_read,
                                   .losses = "lies behind the table's end"};

TIER_NOTE("");
TIER_ENTRY(table);
