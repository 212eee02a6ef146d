// --set and --unset
#include "host/base/error.hpp"
#include "host/base/text.hpp"
#include "host/config/toml/key_path.hpp"
#include "host/config/toml/toml.hpp"

namespace mneme::config {
namespace {

std::string trim(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  return std::string(text.substr(begin, text.find_last_not_of(" \t") - begin + 1));
}

// The table that a key lies in; nullptr where the tree has no such place.
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

std::string Override::text() const { return (is_removal ? "--unset " : "--set ") + key; }

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
