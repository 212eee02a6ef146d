// Text as it can be shown on one line.
#pragma once

#include <string>
#include <string_view>

namespace mneme::data {

// The text with line ends and tabs as \n and \t, and other control characters and bytes that are no
// UTF-8 as \xNN.
[[nodiscard]] std::string printable(std::string_view text);

}  // namespace mneme::data
