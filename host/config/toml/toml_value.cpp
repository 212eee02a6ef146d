#include <algorithm>
#include <array>
#include <cmath>
#include <stdexcept>
#include <utility>

#include "host/base/error.hpp"
#include "host/base/integer.hpp"
#include "host/base/text.hpp"
#include "host/config/toml/toml.hpp"

namespace mneme::config {

std::string Position::text() const {
  if (source == nullptr) return "";
  return line == 0 ? *source : str(*source, ':', line, ':', column);
}

std::string_view kind_text(Kind kind) {
  constexpr std::array kTexts = {"a table",    "an array",      "a string",
                                 "an integer", "a real number", "a boolean"};
  return kTexts[static_cast<std::size_t>(kind)];
}

Value::Value(Contents contents, Position position, std::string path)
    : contents_(std::move(contents)), position_(std::move(position)), path_(std::move(path)) {}

Value Value::table(Position position, std::string path) {
  return {std::vector<Member>(), std::move(position), std::move(path)};
}
Value Value::array(Position position, std::string path) {
  return {std::vector<Value>(), std::move(position), std::move(path)};
}
Value Value::string(std::string text, Position position, std::string path) {
  return {std::move(text), std::move(position), std::move(path)};
}
Value Value::integer(std::int64_t number, Position position, std::string path) {
  return {number, std::move(position), std::move(path)};
}
Value Value::real(double number, Position position, std::string path) {
  return {number, std::move(position), std::move(path)};
}
Value Value::boolean(bool flag, Position position, std::string path) {
  return {flag, std::move(position), std::move(path)};
}

template <Kind expected>
const auto& Value::get() const {
  if (kind() == expected) return std::get<static_cast<std::size_t>(expected)>(contents_);
  throw std::logic_error(str(path_, " is ", kind_text(kind()), ", read as ", kind_text(expected)));
}

const std::string& Value::as_string() const { return get<Kind::kString>(); }
std::int64_t Value::as_integer() const { return get<Kind::kInteger>(); }
double Value::as_real() const {
  return kind() == Kind::kInteger ? static_cast<double>(as_integer()) : get<Kind::kReal>();
}
bool Value::as_boolean() const { return get<Kind::kBoolean>(); }
const std::vector<Value>& Value::items() const { return get<Kind::kArray>(); }
std::vector<Value>& Value::items() {
  return const_cast<std::vector<Value>&>(std::as_const(*this).items());
}
const std::vector<Member>& Value::members() const { return get<Kind::kTable>(); }
std::vector<Member>& Value::own_members() {
  return const_cast<std::vector<Member>&>(std::as_const(*this).members());
}

const Value* Value::find(std::string_view key) const {
  for (const Member& member : members()) {
    if (member.key == key) return &member.value;
  }
  return nullptr;
}

Value* Value::find(std::string_view key) {
  return const_cast<Value*>(std::as_const(*this).find(key));
}

Value& Value::set(std::string key, Position key_position, Value value) {
  const auto found = std::ranges::find(own_members(), key, &Member::key);
  if (found == own_members().end()) {
    own_members().push_back({std::move(key), std::move(key_position), std::move(value)});
    return own_members().back().value;
  }
  found->key_position = std::move(key_position);
  return found->value = std::move(value);
}

bool Value::erase(std::string_view key) {
  return std::erase_if(own_members(), [key](const Member& member) { return member.key == key; }) >
         0;
}

void Value::place_at(const Position& position, const std::string& path) {
  position_ = position;
  path_ = path;
  if (kind() == Kind::kArray) {
    for (std::size_t i = 0; i < items().size(); ++i) {
      items()[i].place_at(position, str(path, '.', i));
    }
  } else if (is_table()) {
    for (Member& member : own_members()) {
      member.key_position = position;
      member.value.place_at(position, child_path(path, member.key));
    }
  }
}

std::string Value::toml() const {
  switch (kind()) {
    case Kind::kString:
      return toml_string(as_string());
    case Kind::kInteger:
      return std::to_string(as_integer());
    case Kind::kReal:
      return format_exact(as_real());
    case Kind::kBoolean:
      return as_boolean() ? "true" : "false";
    case Kind::kArray: {
      std::vector<std::string> parts;
      for (const Value& item : items()) parts.push_back(item.toml());
      return '[' + join(parts, ", ") + ']';
    }
    case Kind::kTable:
      break;
  }
  std::vector<std::string> parts;
  for (const Member& member : members()) {
    parts.push_back(str(toml_key(member.key), " = ", member.value.toml()));
  }
  return parts.empty() ? "{}" : "{ " + join(parts, ", ") + " }";
}

bool operator==(const Value& a, const Value& b) {
  if (a.kind() != b.kind()) return false;
  if (a.kind() == Kind::kReal && std::isnan(a.as_real())) return std::isnan(b.as_real());
  if (!a.is_table()) return a.contents_ == b.contents_;
  return a.members().size() == b.members().size() &&
         std::ranges::all_of(a.members(), [&b](const Member& member) {
           const Value* other = b.find(member.key);
           return other != nullptr && *other == member.value;
         });
}

std::string toml_string(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto code = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (code < 0x20 || code == 0x7f) {
      constexpr std::string_view kDigits = "0123456789ABCDEF";
      out += "\\u00";
      out += kDigits[code >> 4];
      out += kDigits[code & 15];
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string toml_key(std::string_view key) {
  const bool is_bare = !key.empty() && std::all_of(key.begin(), key.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-';
  });
  return is_bare ? std::string(key) : toml_string(key);
}

std::string child_path(const std::string& parent, std::string_view key) {
  return parent.empty() ? toml_key(key) : str(parent, '.', toml_key(key));
}

namespace {

void flatten(const std::string& path, const Value& value, std::vector<FlatKey>& out) {
  if (value.is_table()) {
    for (const Member& member : value.members()) {
      flatten(path.empty() ? member.key : str(path, '.', member.key), member.value, out);
    }
    return;
  }
  if (value.kind() == Kind::kArray && !value.items().empty() && value.items().front().is_table()) {
    for (std::size_t i = 0; i < value.items().size(); ++i) {
      flatten(str(path, '.', i), value.items()[i], out);
    }
    return;
  }
  out.push_back({path, value});
}

}  // namespace

std::vector<FlatKey> flat_keys(const Value& root) {
  std::vector<FlatKey> out;
  flatten("", root, out);
  return out;
}

// --- --set and --unset ---

namespace {

constexpr std::string_view kBlanks = " \t";

// The table that holds a key; nullptr where the tree has none.
Value* parent_of(Value& root, const std::vector<std::string>& parts) {
  Value* at = &root;
  for (std::size_t i = 0; i + 1 < parts.size() && at != nullptr; ++i) {
    if (at->kind() == Kind::kArray) {
      const std::size_t index = integer_of<std::size_t>(parts[i]).value_or(at->items().size());
      at = index < at->items().size() ? &at->items()[index] : nullptr;
    } else {
      at = at->is_table() ? at->find(parts[i]) : nullptr;
    }
  }
  return at;
}

std::vector<std::string> keys_of(const Value& table) {
  std::vector<std::string> keys;
  for (const Member& member : table.members()) keys.push_back(member.key);
  return keys;
}

}  // namespace

std::string Override::text() const { return (is_removal ? "--unset " : option) + key; }

Override parse_override(std::string_view argument) {
  const std::size_t equals = argument.find('=');
  Override result;
  if (equals != std::string_view::npos) {
    result = {std::string(trimmed(argument.substr(0, equals), kBlanks)),
              std::string(trimmed(argument.substr(equals + 1), kBlanks))};
  }
  if (result.key.empty()) {
    throw_usage({.where = "--set",
                 .expected = "key=value, such as train.steps=100",
                 .got = toml_string(argument)});
  }
  return result;
}

Override parse_removal(std::string_view argument) {
  Override result{.key = std::string(trimmed(argument, kBlanks)), .is_removal = true};
  if (result.key.empty() || result.key.find('=') != std::string::npos) {
    throw_usage({.where = "--unset",
                 .expected = "a key, such as train.epochs",
                 .got = toml_string(argument)});
  }
  return result;
}

void apply_removal(Value& root, const Override& override) {
  const std::vector<std::string> parts = split_key(override.key);
  Value* const parent = parent_of(root, parts);
  if (parent != nullptr && parent->kind() == Kind::kArray) {
    throw_usage({.where = override.text(),
                 .failed = "an item of a list cannot be removed",
                 .expected = "a key",
                 .got = "an item of " + parent->path(),
                 .hint = "give the list without it, or edit the file"});
  }
  const bool is_table = parent != nullptr && parent->is_table();
  if (is_table && parent->erase(parts.back())) return;
  const std::string nearest_key = is_table ? did_you_mean(parts.back(), keys_of(*parent)) : "";
  throw_usage({.where = override.text(),
               .failed = "the experiment does not have this key" + nearest_key,
               .hint = "leave out " + override.text()});
}

void apply_overrides(Value& root, const std::vector<Override>& overrides) {
  for (const Override& override : overrides) {
    if (override.is_removal) apply_removal(root, override);
  }
  for (const Override& override : overrides) {
    if (!override.is_removal) apply_override(root, override);
  }
}

}  // namespace mneme::config
