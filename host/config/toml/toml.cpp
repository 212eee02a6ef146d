#include "host/config/toml/toml.hpp"

#include <toml++/toml.h>

#include <algorithm>
#include <system_error>
#include <utility>

#include "host/base/error.hpp"
#include "host/base/file/file.hpp"
#include "host/base/integer.hpp"
#include "host/base/text.hpp"
#include "host/config/configs_folder.hpp"
#include "host/config/toml/syntax_hint.hpp"

namespace mneme::config {
namespace {

// No experiment nests deeper, and recursion over the tree must not exhaust the stack.
constexpr std::size_t kMaxDepth = 64;
constexpr std::size_t kMaxKeyDots = 32;
constexpr std::size_t kMaxKeys = 4096;  // of a table, whose keys are looked for one by one

// The position of everything that a text holds, but for line and column.
struct Origin {
  std::shared_ptr<const std::string> source;
  std::shared_ptr<const std::filesystem::path> folder;

  Origin(const std::string& name, const std::filesystem::path& base)
      : source(std::make_shared<const std::string>(name)),
        folder(std::make_shared<const std::filesystem::path>(base)) {}

  [[nodiscard]] Position at(std::uint32_t line, std::uint32_t column) const {
    return {source, folder, line, column};
  }
  [[nodiscard]] Position at(const toml::source_position& place) const {
    return at(place.line, place.column);
  }
};

[[noreturn]] void fail(const Position& position, const std::string& failed,
                       const std::string& expected = "", const std::string& got = "",
                       const std::string& hint = "") {
  throw_usage(
      {.where = position.text(), .failed = failed, .expected = expected, .got = got, .hint = hint});
}

// toml++ limits the nesting of values but not of dotted keys, and destroys the tables that they
// make recursively: a key of 100,000 parts overflows its stack. This refuses such keys beforehand.
class KeyGuard {
 public:
  KeyGuard(std::string_view text, const Origin& origin) : text_(text), origin_(origin) {}

  void check() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '#') {
        skip_to_line_end();
      } else if (c == '"' || c == '\'') {
        skip_string(c);
      } else {
        if (c == '.') count_dot();
        if (std::string_view("=,[]{}\n").find(c) != std::string_view::npos) dots_ = 0;
        ++at_;
      }
    }
  }

 private:
  void skip_to_line_end() {
    while (at_ < text_.size() && text_[at_] != '\n') ++at_;
  }

  void skip_string(char quote) {
    const std::size_t begin = at_;
    const std::string triple(3, quote);
    const bool is_multiline = text_.substr(at_, 3) == triple;
    at_ += is_multiline ? 3 : 1;
    while (at_ < text_.size()) {
      if (quote == '"' && text_[at_] == '\\' && (is_multiline || text_.substr(at_, 2) != "\\\n")) {
        at_ += 2;
      } else if (is_multiline && text_.substr(at_, 3) == triple) {
        at_ += 3;
        // Up to two quotes before the three belong to the text.
        for (int more = 0; more < 2 && text_.substr(at_, 1) == triple.substr(0, 1); ++more) ++at_;
        return;
      } else if (!is_multiline && text_[at_] == quote) {
        ++at_;
        return;
      } else if (!is_multiline && text_[at_] == '\n') {
        break;
      } else {
        ++at_;
      }
    }
    fail(place_of(begin), "the string that begins here is not closed",
         is_multiline ? triple + " at its end" : str(quote, " before the end of the line"));
  }

  [[nodiscard]] Position place_of(std::size_t at) const {
    const std::string_view before = text_.substr(0, at);
    const auto line = std::count(before.begin(), before.end(), '\n') + 1;
    const std::size_t line_start = before.rfind('\n') + 1;  // npos + 1 = 0
    return origin_.at(static_cast<std::uint32_t>(line),
                      static_cast<std::uint32_t>(at - line_start + 1));
  }

  void count_dot() {
    if (++dots_ <= kMaxKeyDots) return;
    fail(place_of(at_), "too many parts in a key", str("at most ", kMaxKeyDots + 1), "more");
  }

  std::string_view text_;
  const Origin& origin_;
  std::size_t at_ = 0;
  std::size_t dots_ = 0;
};

Value convert(const toml::node& node, const Origin& origin, const std::string& path,
              std::size_t depth);

Value convert_table(const toml::table& table, const Origin& origin, const std::string& path,
                    std::size_t depth) {
  // toml++ sorts keys by name; here they keep the order of the file.
  std::vector<std::pair<const toml::key*, const toml::node*>> order;
  for (const auto& [key, node] : table) order.emplace_back(&key, &node);
  std::stable_sort(order.begin(), order.end(), [](const auto& a, const auto& b) {
    const toml::source_position& left = a.first->source().begin;
    const toml::source_position& right = b.first->source().begin;
    return std::pair(left.line, left.column) < std::pair(right.line, right.column);
  });
  if (order.size() > kMaxKeys) {
    fail(origin.at(table.source().begin), "too many keys in a table", str("at most ", kMaxKeys),
         str(order.size()));
  }
  Value value = Value::table(origin.at(table.source().begin), path);
  for (const auto& [key, node] : order) {
    value.set(std::string(key->str()), origin.at(key->source().begin),
              convert(*node, origin, child_path(path, key->str()), depth + 1));
  }
  return value;
}

Value convert(const toml::node& node, const Origin& origin, const std::string& path,
              std::size_t depth) {
  const Position position = origin.at(node.source().begin);
  if (depth > kMaxDepth) {
    fail(position, "nested too deeply", str("at most ", kMaxDepth, " levels"));
  }
  switch (node.type()) {
    case toml::node_type::table:
      return convert_table(*node.as_table(), origin, path, depth);
    case toml::node_type::array: {
      Value value = Value::array(position, path);
      std::size_t index = 0;
      for (const toml::node& item : *node.as_array()) {
        value.items().push_back(convert(item, origin, str(path, '.', index++), depth + 1));
      }
      return value;
    }
    case toml::node_type::string:
      return Value::string(**node.as_string(), position, path);
    case toml::node_type::integer:
      return Value::integer(**node.as_integer(), position, path);
    case toml::node_type::floating_point:
      return Value::real(**node.as_floating_point(), position, path);
    case toml::node_type::boolean:
      return Value::boolean(**node.as_boolean(), position, path);
    default:
      break;
  }
  fail(position, str(path, ": dates and times have no use here"),
       "a table, an array, a string, a number or a boolean", "", "quote it to make it a string");
}

Value parse(std::string_view text, const Origin& origin) {
  KeyGuard(text, origin).check();
  try {
    const toml::table table = toml::parse(text, *origin.source);
    Value root = convert_table(table, origin, "", 0);
    return root;
  } catch (const toml::parse_error& error) {
    const std::string description(error.description());
    fail(origin.at(error.source().begin), description, "", "",
         syntax_hint(text, error.source().begin.line, description));
  }
}

Value parse_override_value(const std::string& text, const Position& position) {
  const std::string failed = "cannot read the value " + toml_string(text);
  const std::string expected = "one TOML value or a bare word";
  if (text.find('\n') != std::string::npos) fail(position, failed, expected, "several lines");
  try {
    const Value table = parse("v = " + text, Origin("value", *position.folder));
    return table.members().front().value;
  } catch (const Error& error) {
    // Text that begins like a TOML value must be one; any other text is taken as a string without
    // quotes.
    const bool is_meant_as_toml =
        !text.empty() && std::string_view("\"'[{").find(text.front()) != std::string_view::npos;
    if (is_meant_as_toml) fail(position, failed, expected, error.what());
  }
  return Value::string(text, position, "");
}

bool is_index(const std::string& part) {
  return !part.empty() && part.find_first_not_of("0123456789") == std::string::npos;
}

// The array's item that `part` names.
Value& item_at(Value& array, const std::string& part, const Position& position) {
  const auto index = integer_of<std::size_t>(part);
  if (!index || *index >= array.items().size()) {
    const std::size_t count = array.items().size();
    fail(position, str(array.path(), " has ", count, count == 1 ? " item" : " items"),
         count == 0 ? "no index" : str("an index from 0 to ", count - 1), toml_string(part));
  }
  return array.items()[*index];
}

// Missing files and paths that are something else, before an error about their bytes.
void check_is_toml(const std::filesystem::path& path, const std::filesystem::path& shipped) {
  std::error_code ignored;
  std::error_code failure;
  static_cast<void>(std::filesystem::status(path, failure));
  if (failure == std::errc::no_such_file_or_directory) {
    const auto program = std::filesystem::read_symlink("/proc/self/exe", ignored);
    fail_missing(path, folder_of_configs(program) / shipped);
  }
  if (std::filesystem::is_directory(path, ignored)) {
    const bool is_run = std::filesystem::exists(path / "experiment.toml", ignored);
    throw_usage({.where = path.string(),
                 .failed = "cannot read",
                 .expected = "a TOML file",
                 .got = is_run ? "the folder of a run" : "a folder",
                 .hint = is_run ? str("its experiment is ", (path / "experiment.toml").string(),
                                      "; mneme train --resume ", shell_word(path.string()),
                                      " goes on with the run")
                                : ""});
  }
  const bool is_library = path.extension() == ".so";
  if (!is_library && path.extension() != ".py") return;
  if (!std::filesystem::is_regular_file(path, ignored)) return;
  const std::filesystem::path whole = std::filesystem::absolute(path);
  const std::string folder =
      str("[memory], plugins = [\"", whole.parent_path().string(), "\"], and ");
  throw_usage({.where = path.string(),
               .failed = "cannot read",
               .expected = "a TOML file",
               .got = is_library ? "a plugin's library" : "a Python file",
               .hint = str("a memory file names it: ", is_library ? folder : "",
                           "a [[memory.tier]] with plugin = \"",
                           is_library ? path.stem().string() : whole.string(), '"')});
}

}  // namespace

Value parse_toml_file(const std::filesystem::path& path, const std::filesystem::path& shipped) {
  check_is_toml(path, shipped);
  const std::filesystem::path folder = std::filesystem::absolute(path).parent_path();
  const std::string text = read_file(path, kMaxConfigBytes);
  try {
    return parse(text, Origin(path.string(), folder));
  } catch (const Error& error) {
    if (path.extension() == ".toml") throw;
    throw Error(error.kind(), error.what(),
                str("is ", path.string(), " the file that you meant? It was read as TOML"));
  }
}

Value parse_toml(std::string_view text, const std::string& source,
                 const std::filesystem::path& folder) {
  return parse(text, Origin(source, std::filesystem::absolute(folder)));
}

void apply_override(Value& root, const Override& override) {
  const Origin origin(override.text(), std::filesystem::current_path());
  const Position position = origin.at(0, 0);
  const std::vector<std::string> parts = split_key(override.key);
  if (parts.size() > kMaxKeyDots + 1) {
    fail(origin.at(0, 0), "too many parts in a key", str("at most ", kMaxKeyDots + 1),
         str(parts.size()));
  }
  Value value = parse_override_value(override.value, position);
  Value* at = &root;
  std::string path;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::string& part = parts[i];
    if (part.empty()) fail(position, "a part of the key is empty", "key.key=value");
    const bool is_last = i + 1 == parts.size();
    if (at->kind() == Kind::kArray) {
      Value& item = item_at(*at, part, position);
      path += str('.', part);
      at = &item;
      if (!is_last) continue;
      item = std::move(value);
      break;
    }
    if (!at->is_table()) {
      fail(position, str(path, " has no keys"), "a table", std::string(kind_text(at->kind())));
    }
    path = child_path(path, part);
    if (is_last) {
      at = &at->set(part, position, std::move(value));
      break;
    }
    Value* next = at->find(part);
    if (next == nullptr) {
      if (is_index(parts[i + 1])) {
        fail(position, str(path, " is not there"), "a key of the file",
             str("item ", parts[i + 1], " of nothing"));
      }
      next = &at->set(part, position, Value::table(position, path));
    }
    at = next;
  }
  at->place_at(position, path);
}

}  // namespace mneme::config
