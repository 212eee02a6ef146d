// What `create` sees of the host: struct mneme_setup.
#pragma once

#include <list>
#include <string>
#include <vector>

#include "host/config/options.hpp"
#include "host/memory/abi/call_error.hpp"
#include "host/memory/abi/live_call.hpp"
#include "host/memory/tier.hpp"
#include "mneme/plugin.h"

// Lives during one `create`.
struct mneme_setup {
  mneme::memory::Instance* instance = nullptr;
  const mneme::config::OptionMap* options = nullptr;
  const mneme::memory::BackboneInfo* backbone = nullptr;
};

namespace mneme::memory {

// A function of a host group that `create` calls, as in_hook (hook_context.hpp).
template <typename Body>
mneme_status in_create(mneme_setup* handle, mneme_error* error, Body&& body) noexcept {
  return guard(error,
               [&] { body(static_cast<mneme_setup*>(find_live(LiveKind::kCreate, handle))); });
}

}  // namespace mneme::memory
