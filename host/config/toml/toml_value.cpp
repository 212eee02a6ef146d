#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>

#include "host/base/error.hpp"
#include "host/base/text.hpp"
#include "host/config/toml/toml.hpp"

namespace mneme::config {

std::string Position::text() const {
  if (source == nullptr) return "";
  return line == 0 ? *source : str(*source, ':', line, ':', column);
}

std::string_view kind_text(Kind kind) {
  switch (kind) {
    case Kind::kTable:
      return "a table";
    case Kind::kArray:
      return "an array";
    case Kind::kString:
      return "a string";
    case Kind::kInteger:
      return "an integer";
    case Kind::kReal:
      return "a real number";
    case Kind::kBoolean:
      break;
  }
  return "a boolean";
}

Value::Value(Kind kind, Position position, std::string path)
    : kind_(kind), position_(std::move(position)), path_(std::move(path)) {}

Value Value::table(Position position, std::string path) {
  return Value(Kind::kTable, std::move(position), std::move(path));
}

Value Value::array(Position position, std::string path) {
  return Value(Kind::kArray, std::move(position), std::move(path));
}

Value Value::string(std::string text, Position position, std::string path) {
  Value value(Kind::kString, std::move(position), std::move(path));
  value.string_ = std::move(text);
  return value;
}

Value Value::integer(std::int64_t number, Position position, std::string path) {
  Value value(Kind::kInteger, std::move(position), std::move(path));
  value.integer_ = number;
  return value;
}

Value Value::real(double number, Position position, std::string path) {
  Value value(Kind::kReal, std::move(position), std::move(path));
  value.real_ = number;
  return value;
}

Value Value::boolean(bool flag, Position position, std::string path) {
  Value value(Kind::kBoolean, std::move(position), std::move(path));
  value.boolean_ = flag;
  return value;
}

void Value::require(Kind kind) const {
  if (kind_ == kind) return;
  throw std::logic_error(str(path_, " is ", kind_text(kind_), ", read as ", kind_text(kind)));
}

const std::string& Value::as_string() const {
  require(Kind::kString);
  return string_;
}

std::int64_t Value::as_integer() const {
  require(Kind::kInteger);
  return integer_;
}

double Value::as_real() const {
  if (kind_ == Kind::kInteger) return static_cast<double>(integer_);
  require(Kind::kReal);
  return real_;
}

bool Value::as_boolean() const {
  require(Kind::kBoolean);
  return boolean_;
}

const std::vector<Value>& Value::items() const {
  require(Kind::kArray);
  return items_;
}

std::vector<Value>& Value::items() {
  require(Kind::kArray);
  return items_;
}

const std::vector<Member>& Value::members() const {
  require(Kind::kTable);
  return members_;
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
  require(Kind::kTable);
  for (Member& member : members_) {
    if (member.key == key) {
      member.key_position = std::move(key_position);
      member.value = std::move(value);
      return member.value;
    }
  }
  members_.push_back({std::move(key), std::move(key_position), std::move(value)});
  return members_.back().value;
}

bool Value::erase(std::string_view key) {
  require(Kind::kTable);
  return std::erase_if(members_, [key](const Member& member) { return member.key == key; }) > 0;
}

std::string Value::toml() const {
  switch (kind_) {
    case Kind::kString:
      return toml_string(string_);
    case Kind::kInteger:
      return std::to_string(integer_);
    case Kind::kReal:
      return format_exact(real_);
    case Kind::kBoolean:
      return boolean_ ? "true" : "false";
    case Kind::kArray: {
      std::vector<std::string> parts;
      for (const Value& item : items_) parts.push_back(item.toml());
      return '[' + join(parts, ", ") + ']';
    }
    case Kind::kTable:
      break;
  }
  std::vector<std::string> parts;
  for (const Member& member : members_) {
    parts.push_back(str(toml_key(member.key), " = ", member.value.toml()));
  }
  return parts.empty() ? "{}" : "{ " + join(parts, ", ") + " }";
}

bool operator==(const Value& a, const Value& b) {
  if (a.kind_ != b.kind_) return false;
  switch (a.kind_) {
    case Kind::kString:
      return a.string_ == b.string_;
    case Kind::kInteger:
      return a.integer_ == b.integer_;
    case Kind::kReal:
      return a.real_ == b.real_ || (std::isnan(a.real_) && std::isnan(b.real_));
    case Kind::kBoolean:
      return a.boolean_ == b.boolean_;
    case Kind::kArray:
      return a.items_ == b.items_;
    case Kind::kTable:
      break;
  }
  return a.members_.size() == b.members_.size() &&
         std::all_of(a.members_.begin(), a.members_.end(), [&b](const Member& member) {
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

// --- --set and --unset ---

namespace {

std::string trim(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  return std::string(text.substr(begin, text.find_last_not_of(" \t") - begin + 1));
}

// The table that holds a key; nullptr where the tree has none.
Value* parent_of(Value& root, const std::vector<std::string>& parts) {
  Value* at = &root;
  for (std::size_t i = 0; i + 1 < parts.size() && at != nullptr; ++i) {
    if (at->kind() == Kind::kArray) {
      const bool is_index = !parts[i].empty() && parts[i].size() < 10 &&
                            parts[i].find_first_not_of("0123456789") == std::string::npos;
      const std::size_t index = is_index ? std::stoul(parts[i]) : at->items().size();
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
    result = {trim(argument.substr(0, equals)), trim(argument.substr(equals + 1))};
  }
  if (result.key.empty()) {
    throw_usage({.where = "--set",
                 .expected = "key=value, such as train.steps=100",
                 .got = toml_string(argument)});
  }
  return result;
}

Override parse_removal(std::string_view argument) {
  Override result{.key = trim(argument), .is_removal = true};
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
