#include "host/config/toml/syntax_hint.hpp"

#include <algorithm>
#include <cctype>

#include "host/base/text.hpp"
#include "host/config/toml/toml.hpp"

namespace mneme::config {
namespace {

// The line without what follows a '#', as far as no string holds one.
std::string_view without_comment(std::string_view line) {
  return trimmed(line.substr(0, line.find('#')));
}

bool begins_word(std::string_view value) {
  const auto first = static_cast<unsigned char>(value.front());
  return std::isalpha(first) != 0 || first == '/' || first == '~' || first == '_' ||
         value.starts_with("./") || value.starts_with("../");
}

std::string lower(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), [](char c) {
    return static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  });
  return out;
}

// Of a value that is no TOML: what stands behind "key = ".
std::string value_hint(std::string_view key, std::string_view value) {
  const std::string word = lower(value);
  if (word == "true" || word == "yes" || word == "on") return str("write ", key, " = true");
  if (word == "false" || word == "no" || word == "off") return str("write ", key, " = false");
  if (word == "none" || word == "null" || word == "nil") return "leave the key out";
  for (const std::string_view mark : {"\u201c", "\u201d", "\u201e", "\u2018", "\u2019", "\u00ab"}) {
    if (value.starts_with(mark)) return "write plain quotation marks, \"";
  }
  const bool is_number = std::isdigit(static_cast<unsigned char>(value.front())) != 0;
  if (is_number && value.find(',') != std::string_view::npos) {
    return "write a decimal point in place of the comma, or a list as [1, 2]";
  }
  if (value.front() == '.') return "write a digit before the decimal point";
  if (begins_word(value))
    return str("a string has quotation marks: ", key, " = ", toml_string(value));
  return "";
}

}  // namespace

std::string syntax_hint(std::string_view line, std::string_view description) {
  const auto says = [&](std::string_view words) {
    return description.find(words) != std::string_view::npos;
  };
  const std::string_view text = without_comment(line);
  if (says("unknown escape sequence")) {
    return "write \\\\ for a backslash, or put the text between apostrophes, 'C:\\data'";
  }
  if (says("cannot redefine existing table") && text.starts_with("[")) {
    const std::string name(trimmed(text.substr(1, text.find(']') - 1)));
    return str("put its keys into one [", name, "]; of several alike each begins with [[", name,
               "]]");
  }
  if (says("cannot redefine")) return "remove one of the two lines";
  if (text.starts_with("//")) return "comments begin with #";
  const std::size_t equals = text.find('=');
  if (equals == std::string_view::npos) {
    const std::size_t colon = text.find(':');
    if (colon == std::string_view::npos) return "";
    return str("write ", trimmed(text.substr(0, colon)), " = ", trimmed(text.substr(colon + 1)));
  }
  const std::string_view key = trimmed(text.substr(0, equals));
  const std::string_view value = trimmed(text.substr(equals + 1));
  if (value.empty()) return "write a value behind the =, or remove the line";
  return value_hint(key, value);
}

}  // namespace mneme::config
