// JSON texts of files that other programs wrote.
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "host/base/text.hpp"

namespace mneme {

// Objects and lists in each other. Values are printed and destroyed by functions that call
// themselves for each level, so deeper texts are refused.
inline constexpr std::size_t kMaxJsonDepth = 100;

// How deep objects and lists of a JSON text lie in each other; what stands in quotes is none. The
// text need not be valid.
[[nodiscard]] std::size_t json_depth(std::string_view text);

// The value, or a discarded one for a text that is no JSON or deeper than kMaxJsonDepth.
[[nodiscard]] Json parse_json(std::string_view text);

}  // namespace mneme
