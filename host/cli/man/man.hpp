// The manual page mneme(1), made of the program's definitions: mneme man
#pragma once

#include <string>

#include "host/cli/definition.hpp"

namespace mneme::cli {

// The page for man(1): requests of man(7), UTF-8, the same for the same program. `version` is in
// its last line.
[[nodiscard]] std::string man_page(const CommandDefinition& program, const std::string& version);

}  // namespace mneme::cli
