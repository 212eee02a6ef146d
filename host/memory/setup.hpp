// What `create` sees of the host: struct mneme_setup.
#pragma once

#include <list>
#include <string>
#include <vector>

#include "host/config/options.hpp"
#include "host/memory/tier.hpp"
#include "mneme/plugin.h"

// Lives during one `create`.
struct mneme_setup {
  mneme::memory::Instance* instance = nullptr;
  const mneme::config::OptionMap* options = nullptr;
  const mneme::memory::BackboneInfo* backbone = nullptr;
};
