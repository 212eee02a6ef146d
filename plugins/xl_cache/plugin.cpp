// ABI glue of the XL cache.
#include "mneme/plugin.hpp"

#include "xl_cache.hpp"

MNEME_PLUGIN_WITH_FEATURES(xl_cache::XlCache, "org.mneme.xl_cache", "0.1.0",
                           MNEME_PLUGIN_CPP_FEATURES " " MNEME_GROUP_KERNEL)
