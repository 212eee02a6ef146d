// The host as a plugin sees it: an object of its own, through which it finds the function groups
// that its note lists.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "mneme/plugin.h"

namespace mneme::plugin {

// The ids of the function groups that this host has.
inline constexpr std::array<std::string_view, 10> kHostGroups = {
    MNEME_GROUP_TENSOR, MNEME_GROUP_OP,  MNEME_GROUP_KERNEL, MNEME_GROUP_STATE, MNEME_GROUP_LAYER,
    MNEME_GROUP_CONFIG, MNEME_GROUP_LOG, MNEME_GROUP_RANDOM, MNEME_GROUP_PROBE, MNEME_GROUP_PARALLEL};

// The functions of a group of kHostGroups; nullptr for any other id. The loader is given one
// (memory/host_groups.hpp), because the functions work on what rooms above this one hold.
using FindGroup = const void* (*)(std::string_view id);

}  // namespace mneme::plugin

// Lives as long as the process.
struct mneme_host {
  std::vector<std::string> groups;  // ids that the plugin's note lists
  mneme::plugin::FindGroup find_group = nullptr;
};

namespace mneme::plugin {

// The host object of a plugin with this note.
mneme_host host_of(const mneme_note& note, FindGroup find_group);

// mneme_host_offer::get_group: nullptr for an unknown id and for one that the note does not list.
const void* host_group(const mneme_host* host, const char* id);

}  // namespace mneme::plugin
