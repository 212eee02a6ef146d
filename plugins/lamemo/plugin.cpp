// ABI glue of LaMemo.
#include "mneme/plugin.hpp"

#include "lamemo.hpp"

MNEME_PLUGIN_WITH_FEATURES(lamemo::LaMemo, "org.mneme.lamemo", "0.1.0",
                           MNEME_PLUGIN_CPP_FEATURES " " MNEME_GROUP_KERNEL)
