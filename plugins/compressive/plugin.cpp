// ABI glue of the compressive memory.
#include "mneme/plugin.hpp"

#include "compressive.hpp"

MNEME_PLUGIN_WITH_FEATURES(compressive::Compressive, "org.mneme.compressive", "0.1.0",
                           MNEME_PLUGIN_CPP_FEATURES " " MNEME_GROUP_KERNEL)
