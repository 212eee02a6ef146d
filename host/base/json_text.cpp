#include "host/base/json_text.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>

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

Json parse_json_or_throw(std::string_view text, std::optional<std::string>* repeated) {
  if (const std::size_t depth = json_depth(text); depth > kMaxJsonDepth) {
    throw Json::other_error::create(
        501,
        str("objects and lists in each other: expected at most ", kMaxJsonDepth, ", got ", depth),
        nullptr);
  }
  if (repeated == nullptr) return Json::parse(text);
  std::vector<std::set<std::string>> keys;  // of the objects that are open
  return Json::parse(text, [&](int, Json::parse_event_t event, const Json& part) {
    if (event == Json::parse_event_t::object_start) keys.emplace_back();
    if (event == Json::parse_event_t::object_end) keys.pop_back();
    if (event != Json::parse_event_t::key) return true;
    auto key = part.get<std::string>();
    if (!keys.back().insert(key).second && !*repeated) *repeated = std::move(key);
    return true;
  });
}

namespace {

bool is_number_of_python(const std::string& token) {
  if (token == "NaN" || token == "Infinity" || token == "-Infinity") return true;
  return token.find_first_not_of("+-.0123456789eE") == token.npos &&
         std::isinf(std::strtod(token.c_str(), nullptr));
}

}  // namespace

std::string json_of_python(std::string_view text) {
  constexpr std::string_view kBounds = " \t\r\n\"{}[]:,";
  std::string out;
  for (std::size_t i = 0, end = 0; i < text.size(); i = end) {
    if (text[i] == '"') {
      for (end = i + 1; end < text.size() && text[end] != '"'; ++end) {
        if (text[end] == '\\') ++end;  // the next letter is escaped
      }
      ++end;
    } else {
      end = std::max(text.find_first_of(kBounds, i), i + 1);
    }
    const std::string token(text.substr(i, end - i));
    out += is_number_of_python(token) ? str('"', token, '"') : token;
  }
  return out;
}

std::string json_text(const Json& json, int indent) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

namespace {

[[noreturn]] void refuse_number(const Json& json, const std::string& expected) {
  const bool is_number = json.is_number();
  throw Json::type_error::create(
      302, str("expected ", expected, ", got ", is_number ? json.dump() : json.type_name()),
      nullptr);
}

template <typename Integer>
std::vector<Integer> list_of(const Json& json) {
  if (!json.is_array()) refuse_number(json, "a list of integers");
  std::vector<Integer> out;
  out.reserve(json.size());
  for (const Json& item : json) {
    out.push_back(static_cast<Integer>(json_integer(item, std::numeric_limits<Integer>::min(),
                                                    std::numeric_limits<Integer>::max())));
  }
  return out;
}

}  // namespace

std::int64_t json_integer(const Json& json, std::int64_t min, std::int64_t max) {
  const bool is_wide = json.is_number_unsigned() && json.get<std::uint64_t>() > INT64_MAX;
  const bool is_right = json.is_number_integer() && !is_wide;
  const std::int64_t value = is_right ? json.get<std::int64_t>() : 0;
  if (!is_right || value < min || value > max) {
    refuse_number(json, str("an integer from ", min, " to ", max));
  }
  return value;
}

std::uint64_t json_unsigned(const Json& json) {
  // A value that is made here and not parsed may be signed.
  if (json.is_number_unsigned()) return json.get<std::uint64_t>();
  return static_cast<std::uint64_t>(json_integer(json, 0));
}

std::vector<std::int64_t> json_integers(const Json& json) { return list_of<std::int64_t>(json); }
std::vector<std::int32_t> json_ids(const Json& json) { return list_of<std::int32_t>(json); }

}  // namespace mneme
