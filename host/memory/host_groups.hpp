// The host's function groups behind mneme_host_offer::get_group.
#pragma once

#include "mneme/plugin.h"

namespace mneme::memory {

// The process's host object and the lookup that plugins get. Unknown ids give nullptr.
const mneme_host* host_object();
const void* host_group(const mneme_host* host, const char* id);

}  // namespace mneme::memory
