// JSON texts that this program writes.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "host/base/text.hpp"

namespace mneme {

// The value as text for a file, a program or a terminal: on one line, or indented. Bytes that are
// no UTF-8, which names of files may have, become U+FFFD; numbers that JSON cannot hold become
// null.
[[nodiscard]] std::string json_text(const Json& json, int indent = -1);

}  // namespace mneme
