// The text of --help, made of a command's definition.
#pragma once

#include <cstddef>
#include <string>

#include "host/cli/definition.hpp"

namespace mneme::cli {

// Usage, positional arguments, options, commands and examples in lines of at most `width` columns;
// examples stay on one line each, so that they can be copied. `path`: "mneme train".
[[nodiscard]] std::string help_text(const CommandDefinition& command, const std::string& path,
                                    std::size_t width);

}  // namespace mneme::cli
