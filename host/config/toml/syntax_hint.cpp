#include "host/config/toml/syntax_hint.hpp"

#include <algorithm>
#include <cctype>

#include "host/base/text.hpp"
#include "host/config/toml/toml.hpp"

namespace mneme::config {
namespace {

// The line with this number, from 1, without its end.
std::string_view line_of(std::string_view text, std::uint32_t number) {
  for (std::uint32_t i = 1; i < number; ++i) {
    const std::size_t end = text.find('\n');
    if (end == std::string_view::npos) return {};
    text.remove_prefix(end + 1);
  }
  return text.substr(0, text.find('\n'));
}

// Of a file in another encoding or of another language; "" for others.
std::string kind_hint(std::string_view file, std::string_view line, std::string_view description) {
  if (file.starts_with("\xFF\xFE") || file.starts_with("\xFE\xFF") ||
      file.substr(0, 2).find('\0') != std::string_view::npos) {
    return "convert the file (iconv -f UTF-16 -t UTF-8)";
  }
  if (description.find("utf-8") != std::string_view::npos) {
    return "convert the file (iconv -t UTF-8)";
  }
  constexpr std::string_view kBeforeText = " \t\r\n\xEF\xBB\xBF";  // and a byte order mark
  if (trimmed(file, kBeforeText).starts_with('{')) {
    return "this is JSON and not TOML: write key = value, below [section]";
  }
  const bool is_key = line.ends_with(':') && line.find('=') == std::string_view::npos;
  if (is_key || line == "---" || line.starts_with("- ")) {
    return "this is YAML and not TOML: write key = value, below [section]";
  }
  return "";
}

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

std::string syntax_hint(std::string_view file, std::uint32_t line, std::string_view description) {
  const auto says = [&](std::string_view words) {
    return description.find(words) != std::string_view::npos;
  };
  const std::string_view text = without_comment(line_of(file, line));
  if (const std::string hint = kind_hint(file, text, description); !hint.empty()) return hint;
  if (says("escape sequence") || says("unicode scalar")) {
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
  const bool has_equals = equals != std::string_view::npos;
  const std::size_t sign = has_equals ? equals : text.find(':');
  if (sign == std::string_view::npos) return "";
  const std::string_view key = trimmed(text.substr(0, sign));
  const std::string_view value = trimmed(text.substr(sign + 1));
  if (value.empty()) return "write a value behind the =, or remove the line";
  const std::string hint = value_hint(key, value);
  return has_equals || !hint.empty() ? hint : str("write ", key, " = ", value);
}

}  // namespace mneme::config
