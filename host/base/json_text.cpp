#include "host/base/json_text.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace mneme {

std::size_t json_depth(std::string_view text) {
  std::size_t depth = 0;
  std::size_t deepest = 0;
  bool is_in_quotes = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (is_in_quotes && c == '\\') ++i;  // the next letter is escaped
    if (c == '"') is_in_quotes = !is_in_quotes;
    if (is_in_quotes) continue;
    if (c == '{' || c == '[') deepest = std::max(deepest, ++depth);
    if ((c == '}' || c == ']') && depth > 0) --depth;
  }
  return deepest;
}

Json parse_json(std::string_view text) {
  if (json_depth(text) > kMaxJsonDepth) return Json(Json::value_t::discarded);
  return Json::parse(text, nullptr, /*allow_exceptions=*/false);
}

}  // namespace mneme
