// Keys of config.json that cannot change a number, whatever they are called.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

#include "host/base/text.hpp"

namespace mneme::weights {

// True for a key that no family reads and whose name or value says that it is no setting in use:
// names that begin with "_" are notes and the library's own; null, false, 0, "", [] and {} turn
// nothing on.
[[nodiscard]] inline bool is_idle(std::string_view key, const Json& value) {
  if (key.starts_with('_') || value.is_null() || value == Json(false)) return true;
  if (value.is_number()) return value == 0;
  return value == Json("") || ((value.is_array() || value.is_object()) && value.empty());
}

}  // namespace mneme::weights
