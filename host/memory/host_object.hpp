// The host as a plugin sees it: an object of its own, through which it finds the function groups
// that its note lists.
#pragma once

#include <string>
#include <vector>

#include "mneme/plugin.h"

// Lives as long as the process.
struct mneme_host {
  std::vector<std::string> groups;  // ids that the plugin is given where the host has them
};

namespace mneme::memory {

// The host object of a plugin with this note.
mneme_host host_of(const mneme_note& note);

// mneme_host_offer::get_group: nullptr for an unknown id and for one that the note does not list.
const void* host_group(const mneme_host* host, const char* id);

}  // namespace mneme::memory
