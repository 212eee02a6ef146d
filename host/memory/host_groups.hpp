// The host's function groups by id.
#pragma once

#include <string_view>

namespace mneme::memory {

// The functions of a group ("mneme.op/1"), nullptr when this host has no such group. What a plugin
// gets of them: host_object.hpp.
const void* find_group(std::string_view id);

}  // namespace mneme::memory
