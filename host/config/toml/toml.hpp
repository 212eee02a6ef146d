// TOML files as trees of values, each with the file, line and column where it was written.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace mneme::config {

// Where a value was written: in a file, or on the command line.
struct Position {
  std::shared_ptr<const std::string> source = {};            // the file's path, or "--set KEY"
  std::shared_ptr<const std::filesystem::path> folder = {};  // what relative paths are relative to
  std::uint32_t line = 0;                                    // from 1; 0 = no line
  std::uint32_t column = 0;

  // "file:line:column", or the source alone where there is no line.
  [[nodiscard]] std::string text() const;
};

enum class Kind { kTable, kArray, kString, kInteger, kReal, kBoolean };

// "a table", "an array", "a string", "an integer", "a real number", "a boolean".
[[nodiscard]] std::string_view kind_text(Kind kind);

struct Member;

// One value with its position and its key path from the root ("memory.tier.0.rows"; "" = root).
// Calling an accessor of another kind than kind() is a programming error and throws
// std::logic_error.
class Value {
 public:
  // An empty table.
  Value() = default;
  [[nodiscard]] static Value table(Position position, std::string path);
  [[nodiscard]] static Value array(Position position, std::string path);
  [[nodiscard]] static Value string(std::string text, Position position, std::string path);
  [[nodiscard]] static Value integer(std::int64_t number, Position position, std::string path);
  [[nodiscard]] static Value real(double number, Position position, std::string path);
  [[nodiscard]] static Value boolean(bool flag, Position position, std::string path);

  [[nodiscard]] Kind kind() const noexcept { return static_cast<Kind>(contents_.index()); }
  [[nodiscard]] bool is_table() const noexcept { return kind() == Kind::kTable; }
  [[nodiscard]] const Position& position() const noexcept { return position_; }
  [[nodiscard]] const std::string& path() const noexcept { return path_; }

  [[nodiscard]] const std::string& as_string() const;
  [[nodiscard]] std::int64_t as_integer() const;
  // Also of an integer.
  [[nodiscard]] double as_real() const;
  [[nodiscard]] bool as_boolean() const;
  [[nodiscard]] const std::vector<Value>& items() const;
  [[nodiscard]] std::vector<Value>& items();
  // A table's members in the order of the file.
  [[nodiscard]] const std::vector<Member>& members() const;

  // A table's member, or nullptr.
  [[nodiscard]] const Value* find(std::string_view key) const;
  [[nodiscard]] Value* find(std::string_view key);
  // Adds a member at the table's end, or replaces the one of that key.
  Value& set(std::string key, Position key_position, Value value);
  // Removes a member; true when there was one.
  bool erase(std::string_view key);
  // Gives the value, and what is below it, the position and a path from this one on.
  void place_at(const Position& position, const std::string& path);

  // The value as TOML text that reads back as an equal value (tables inline).
  [[nodiscard]] std::string toml() const;

  // Equal kinds and contents; positions and paths do not count, nor does the order of keys.
  friend bool operator==(const Value& a, const Value& b);

 private:
  // In the order of Kind.
  using Contents = std::variant<std::vector<Member>, std::vector<Value>, std::string, std::int64_t,
                                double, bool>;

  Value(Contents contents, Position position, std::string path);
  // The contents of a value of this kind.
  template <Kind expected>
  [[nodiscard]] const auto& get() const;
  [[nodiscard]] std::vector<Member>& own_members();

  Contents contents_;
  Position position_;
  std::string path_;
};

struct Member {
  std::string key;
  Position key_position;
  Value value;

  friend bool operator==(const Member& a, const Member& b) {
    return a.key == b.key && a.value == b.value;
  }
};

// A value that is no table, with its whole key: "memory.tier.0.rows".
struct FlatKey {
  std::string key;
  Value value;
};
// All of a tree, in their order; a list is one value unless it is one of tables.
[[nodiscard]] std::vector<FlatKey> flat_keys(const Value& root);

// One "key=value" of the command line, or a key that it removes.
struct Override {
  std::string key;          // "train.lr", "memory.tier.0.rows"
  std::string value = {};   // TOML, or a bare word
  bool is_removal = false;  // --unset
  // The option that gave it, with a blank or comma behind it, for messages: "--memory a.toml,".
  std::string option = "--set ";

  // "--set train.lr" or "--unset train.lr".
  [[nodiscard]] std::string text() const;
};

// Splits "key=value" at the first '='. Error (kUsage) when there is none or the key is empty.
[[nodiscard]] Override parse_override(std::string_view argument);
// The removal of a key. Error (kUsage) for an empty one, and for "key=value".
[[nodiscard]] Override parse_removal(std::string_view argument);

// Reads a TOML file; relative paths in it are relative to its folder. Error (kRun) when it cannot
// be read, for a missing one with the nearest name beside it or in `shipped`, a folder that comes
// with the program (configs_folder.hpp); Error (kUsage) "file:line:column: ..." for syntax errors,
// for keys given twice, for date and time values, and for nesting deeper than 64 levels.
[[nodiscard]] Value parse_toml_file(const std::filesystem::path& path,
                                    const std::filesystem::path& shipped = "configs");

// The same from a text; `source` is its name in positions, `folder` is the base of relative paths.
[[nodiscard]] Value parse_toml(std::string_view text, const std::string& source,
                               const std::filesystem::path& folder = ".");

// Sets one key of a tree. The key's parts are separated by '.'; a part that meets an array is an
// index ("memory.tier.0.rows"). Missing tables are made. The value is read as TOML; what is not
// TOML is taken as a string ("--set train.precision=f64"). Relative paths in it are relative to the
// current folder. Error (kUsage) for a path through something that is no table, a bad index, or a
// value that is more than one TOML value.
void apply_override(Value& root, const Override& override);

// Removes one key of a tree, of a table and not of a list. Error (kUsage) when the tree does not
// have it, with the nearest key that it has.
void apply_removal(Value& root, const Override& override);

// Removes and sets keys, the removals first, so that a table may replace a value, and a value a
// table.
void apply_overrides(Value& root, const std::vector<Override>& overrides);

// Text as a TOML basic string with quotes and escapes.
[[nodiscard]] std::string toml_string(std::string_view text);
// A key as TOML writes it: bare where allowed, else quoted.
[[nodiscard]] std::string toml_key(std::string_view key);
// The path of a member of the table at `parent`; "" = the root.
[[nodiscard]] std::string child_path(const std::string& parent, std::string_view key);

// --- The parts of a key as --set and --unset name it ---

// "memory", "tier", "0", "rows" of "memory.tier.0.rows".
inline std::vector<std::string> split_key(const std::string& key) {
  std::vector<std::string> parts;
  std::size_t begin = 0;
  for (;;) {
    const std::size_t end = key.find('.', begin);
    parts.push_back(key.substr(begin, end == std::string::npos ? end : end - begin));
    if (end == std::string::npos) return parts;
    begin = end + 1;
  }
}

}  // namespace mneme::config
