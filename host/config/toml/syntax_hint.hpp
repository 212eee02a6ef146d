// What a mistake of TOML's syntax probably means.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace mneme::config {

// What to do about a syntax error that toml++ describes and places in this line, from 1, of the
// file; "" when nothing more is known than the description.
[[nodiscard]] std::string syntax_hint(std::string_view file, std::uint32_t line,
                                      std::string_view description);

}  // namespace mneme::config
