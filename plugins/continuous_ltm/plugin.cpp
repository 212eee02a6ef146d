// ABI glue of the continuous memory.
#include "mneme/plugin.hpp"

#include "continuous_ltm.hpp"

MNEME_PLUGIN_WITH_FEATURES(continuous_ltm::ContinuousLtm, "org.mneme.continuous_ltm", "0.1.0",
                           MNEME_PLUGIN_CPP_FEATURES " " MNEME_GROUP_KERNEL " " MNEME_GROUP_RANDOM)
