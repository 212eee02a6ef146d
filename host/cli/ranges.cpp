#include "host/cli/ranges.hpp"

#include <charconv>
#include <limits>
#include <string>

#include "host/base/text.hpp"
#include "host/config/toml/schema.hpp"

namespace mneme::cli {

CLI::Validator between(std::int64_t least, std::int64_t most) {
  const config::IntegerRange range{least, most};
  const auto check = [range](std::string& text) -> std::string {
    std::int64_t value = 0;
    const char* const end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, value);
    const bool is_integer = error == std::errc() && stop == end;
    if (is_integer && value >= range.min && value <= range.max) return "";
    return str("expected ", config::range_text(range), ", got ", text);
  };
  return {check, ""};
}

CLI::Validator at_least(std::int64_t least) {
  return between(least, std::numeric_limits<std::int64_t>::max());
}

}  // namespace mneme::cli
