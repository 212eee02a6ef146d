/* Its options are declared narrower than an option is. */
#include "tier.h"

static const mneme_option options[1] = {
    {.struct_size = (uint32_t)sizeof(mneme_option), .key = "rows", .type = MNEME_OPTION_INTEGER}};

TIER_TABLE(.options = options, .option_count = 1, .option_stride = 16);
TIER_NOTE("");
TIER_ENTRY(table);
