#include "host/run/host_commit.hpp"

#include "mneme_host_commit.h"

namespace mneme::run {

// The header is made by the SDK's script for plugins, hence the names of the macros.
std::string host_commit() { return MNEME_PLUGIN_COMMIT; }
bool is_host_dirty() { return MNEME_PLUGIN_DIRTY != 0; }

}  // namespace mneme::run
