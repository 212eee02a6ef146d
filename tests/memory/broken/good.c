/* Nothing wrong with this one. TEST_ANSWER tells two builds of it apart. */
#include "tier.h"

static const mneme_option options[] = {
    {.struct_size = (uint32_t)sizeof(mneme_option),
     .flags = MNEME_OPTION_AT_EVALUATION | MNEME_OPTION_BOUNDED,
     .key = "rows",
     .help = "rows kept",
     .type = MNEME_OPTION_INTEGER,
     .default_number = 8,
     .min = 1,
     .max = 4096},
};

TIER_TABLE(.options = options, .option_count = 1, .option_stride = (uint32_t)sizeof(mneme_option));
TIER_NOTE("mneme.op/1");
TIER_ENTRY(table);
