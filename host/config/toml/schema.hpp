// Reading tables by schema: typed access that collects every error before one is thrown.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "host/base/error.hpp"
#include "host/base/text.hpp"
#include "host/base/words.hpp"
#include "host/config/toml/toml.hpp"

namespace mneme::config {

// Errors of one or more files, thrown together.
class Problems {
 public:
  // Adds "position: key path: text"; `text.where` is ignored.
  void add(const Position& position, const std::string& path, const ErrorText& text);
  // Adds every line of another error.
  void add(const Error& error);
  [[nodiscard]] bool empty() const noexcept { return entries_.empty(); }
  [[nodiscard]] std::size_t size() const noexcept { return entries_.size(); }
  // Throws one Error (kUsage) with a line for each of the first 100 problems; none when empty.
  void throw_if_any() const;

 private:
  struct Entry {
    std::string source;
    std::uint32_t line;
    std::uint32_t column;
    std::string text;
  };
  std::vector<Entry> entries_;
};

// Bounds of a number, both included unless `is_open_*`. NaN and infinities are never inside.
struct IntegerRange {
  std::int64_t min = std::numeric_limits<std::int64_t>::min();
  std::int64_t max = std::numeric_limits<std::int64_t>::max();

  friend bool operator==(const IntegerRange&, const IntegerRange&) = default;
};
struct RealRange {
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
  bool is_open_min = false;
  bool is_open_max = false;

  [[nodiscard]] bool contains(double value) const;
  friend bool operator==(const RealRange&, const RealRange&) = default;
};
inline constexpr IntegerRange kPositive{1, std::numeric_limits<std::int64_t>::max()};
inline constexpr IntegerRange kNotNegative{0, std::numeric_limits<std::int64_t>::max()};

// "an integer of at least 1", "a real number in [0, 1)", for messages.
[[nodiscard]] std::string range_text(const IntegerRange& range);
[[nodiscard]] std::string range_text(const RealRange& range);

// A value as messages show it: "\"abc\" (a string)", "1.5", "a table".
[[nodiscard]] std::string describe(const Value& value);

// One number, or a list of at least one.
struct OneOrMore {
  std::vector<std::int64_t> values = {};
};

// A key as a getter names it. The texts beside the name are those of `mneme config keys` and
// docs/configuration.md.
struct Key {
  Key(const char* key) : name(key) {}         // NOLINT: a name alone is a key
  Key(std::string_view key) : name(key) {}    // NOLINT
  Key(const std::string& key) : name(key) {}  // NOLINT
  Key(std::string_view key, std::string_view meaning, std::string_view default_text = {})
      : name(key), text(meaning), fallback(default_text) {}

  std::string_view name;
  std::string_view text = {};      // what it means
  std::string_view fallback = {};  // the default in words, where it follows from other keys
};

// A record of one getter call: a key with its type and default.
struct KeyRecord {
  std::string table;     // its path, without the indices of arrays: "memory.tier"
  std::string key;       // "rows"
  std::string type;      // "an integer of at least 1"
  std::string fallback;  // the default as TOML, or in words: "none", "required"
  std::string text;
};
using KeyLog = std::vector<KeyRecord>;

// Reads one table. Every getter marks its key as known; a value that does not fit goes to
// `problems` and the fallback is returned. finish() reports the keys that nobody asked for.
// The table and the problems must outlive the reader.
class Reader {
 public:
  // `log`, when given, gets a record of every key that a getter is asked for.
  Reader(const Value& table, Problems& problems, KeyLog* log = nullptr);
  // A reader of a table inside this one, with the same problems and log.
  [[nodiscard]] Reader inner(const Value& table) const { return {table, *problems_, log_}; }

  [[nodiscard]] bool has(std::string_view key) const { return table_->find(key) != nullptr; }
  // The member unchecked, marked as known; nullptr when absent.
  const Value* value(std::string_view key);

  std::int64_t integer(const Key& key, std::int64_t fallback, IntegerRange range = {});
  std::uint64_t seed(const Key& key, std::uint64_t fallback);
  double real(const Key& key, double fallback, RealRange range = {});
  bool boolean(const Key& key, bool fallback);
  std::string text(const Key& key, const std::string& fallback);
  // One of `choices`; "" when absent or refused.
  std::string choice(std::string_view key, const std::vector<std::string>& choices);
  // A path, made absolute; relative paths are relative to where the value was written. "" when
  // absent.
  std::filesystem::path path(const Key& key);

  std::optional<std::int64_t> optional_integer(const Key& key, IntegerRange range = {});
  std::optional<double> optional_real(const Key& key, RealRange range = {});
  std::optional<std::vector<std::int64_t>> integers(const Key& key, IntegerRange range = {});
  // An integer, or a list of at least one; none where the key is absent or refused.
  OneOrMore one_or_more(const Key& key, IntegerRange range = {});
  std::optional<std::vector<double>> reals(const Key& key, RealRange range = {});
  std::optional<std::vector<bool>> booleans(const Key& key);
  // The strings of a list; empty when absent or refused.
  std::vector<std::string> texts(const Key& key);
  std::vector<std::filesystem::path> paths(const Key& key);

  // The member when it is a table; an array of tables; nullptr (or empty) when absent or wrong.
  const Value* table(const Key& key);
  std::vector<const Value*> tables(const Key& key);

  // Reports the key as missing when it is; `what` says what it should hold.
  bool require(std::string_view key, const std::string& what);

  // The value whose word the key has (words.hpp).
  template <HasWords E>
  E choice(const Key& key, E fallback) {
    const std::vector<std::string> words = all_words<E>();
    record(key, quoted_list(words), toml_string(to_word(fallback)));
    return find_word<E>(choice(key.name, words)).value_or(fallback);
  }

  // How to remove a key, for messages: removal_of() its value where it has one.
  [[nodiscard]] std::string removal(std::string_view key) const;
  // Reports a problem of one key (at its value, or at the table when the key is absent).
  void problem(std::string_view key, ErrorText text);
  // Members that no getter has asked for; they count as known from then on.
  std::vector<Member> take_rest();
  // Reports every member that no getter asked for and that has no problem yet, with the nearest
  // known key. `also_known` are keys that this table has elsewhere, for suggestions only.
  void finish(const std::vector<std::string>& also_known = {});

  [[nodiscard]] const Value& self() const noexcept { return *table_; }

 private:
  // Adds to the log; `fallback` is the default of a key that has none in words and is not required.
  void record(const Key& key, const std::string& type, const std::string& fallback);
  const Value* typed(std::string_view key, Kind kind, const std::string& expected);
  std::nullopt_t refuse(const Value& value, const std::string& expected);
  std::optional<std::int64_t> integer_of(const Value& value, IntegerRange range);
  std::optional<double> real_of(const Value& value, RealRange range);
  std::optional<std::filesystem::path> path_of(const Value& value);

  // The items of a list but those that were refused; whole without any such.
  template <typename T>
  struct List {
    std::vector<T> items = {};
    bool is_whole = false;

    [[nodiscard]] std::optional<std::vector<T>> if_whole() const {
      return is_whole ? std::optional(items) : std::nullopt;
    }
  };
  // What item_of makes of each item: an optional, absent where it has refused the item.
  template <typename ItemOf>
  auto list(std::string_view key, const std::string& expected, const ItemOf& item_of);

  const Value* table_;
  Problems* problems_;
  KeyLog* log_;
  std::set<std::string, std::less<>> known_;
  std::set<std::string, std::less<>> reported_;  // keys with a problem
  std::set<std::string, std::less<>> required_;
};

// How to remove a value, for messages: "remove the key (--unset data.split)", or "leave out --set
// data.split" where it came from there.
[[nodiscard]] std::string removal_of(const Value& value);

}  // namespace mneme::config
