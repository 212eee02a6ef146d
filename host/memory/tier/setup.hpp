// The host's side of `create`: mneme_setup.
#pragma once

#include "host/config/options.hpp"
#include "host/memory/call/boundary.hpp"
#include "host/memory/interface/backbone_interface.hpp"
#include "host/memory/tier/instance.hpp"
#include "mneme/plugin.h"

// Lives during one `create`.
struct mneme_setup {
  mneme::memory::Instance* instance = nullptr;
  const mneme::config::OptionMap* options = nullptr;
  const mneme::memory::BackboneInfo* backbone = nullptr;
};

namespace mneme::memory {

// A function of a host group that `create` calls, body(setup), every exception a code and text.
// `handle` is the mneme_setup that the plugin passed.
template <typename Body>
mneme_status in_create(mneme_setup* handle, mneme_error* error, Body&& body) noexcept {
  return guard(error,
               [&] { body(static_cast<mneme_setup*>(find_object(HandleKind::kCreate, handle))); });
}

}  // namespace mneme::memory
