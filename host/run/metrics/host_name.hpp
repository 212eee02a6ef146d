// The machine's name.
#pragma once

#include <string>

namespace mneme::run {

// "unknown" when the system does not tell it.
[[nodiscard]] std::string host_name();

}  // namespace mneme::run
