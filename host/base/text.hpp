// Text: concatenation, nearest names for "did you mean", numbers as people read them, line
// breaking, tables in columns.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace mneme {

// Appends one value as an output stream prints it: reals with six significant digits, bool as
// true or false, characters of any sign as they are, paths in quotes.
void append(std::string& out, std::string_view text);
void append(std::string& out, char letter);
void append(std::string& out, bool value);
void append(std::string& out, double value);
void append(std::string& out, long long value);
void append(std::string& out, unsigned long long value);
// `text` in double quotes, a backslash before each double quote and backslash in it.
void append_quoted(std::string& out, std::string_view text);

template <typename T>
void append_value(std::string& out, const T& value) {
  if constexpr (std::same_as<T, signed char> || std::same_as<T, unsigned char>) {
    append(out, static_cast<char>(value));
  } else if constexpr (std::same_as<T, bool> || std::same_as<T, char>) {
    append(out, value);
  } else if constexpr (std::signed_integral<T>) {
    append(out, static_cast<long long>(value));
  } else if constexpr (std::unsigned_integral<T>) {
    append(out, static_cast<unsigned long long>(value));
  } else if constexpr (std::floating_point<T>) {
    append(out, static_cast<double>(value));
  } else if constexpr (std::convertible_to<const T&, std::string_view>) {
    append(out, std::string_view(value));
  } else {
    append_quoted(out, value.native());  // std::filesystem::path, whose header is not needed here
  }
}

// Its arguments as an output stream prints them, one after the other. No stream is used: the
// program composes messages in a thousand places, and each would compile a stream's code.
template <typename... Args>
[[nodiscard]] std::string str(const Args&... args) {
  std::string out;
  (append_value(out, args), ...);
  return out;
}

// Number of single-character insertions, deletions, substitutions and swaps of neighbours that turn
// `a` into `b` (optimal string alignment distance, bytes).
[[nodiscard]] std::size_t edit_distance(std::string_view a, std::string_view b);

// The candidate that `name` is another word for ("gpu" for "cuda"), or else the nearest one, or ""
// when none is within a third of the name's length (at least 1, at most 3 edits, and fewer than the
// name has bytes); the first of equals wins.
[[nodiscard]] std::string nearest(std::string_view name,
                                  const std::vector<std::string>& candidates);

// `" (did you mean \"x\"?)"` when `nearest` finds one, else "".
[[nodiscard]] std::string did_you_mean(std::string_view name,
                                       const std::vector<std::string>& candidates);

// The parts with `separator` between them.
[[nodiscard]] std::string join(const std::vector<std::string>& parts, std::string_view separator);

// The first `most` of the names: "a, b and 7 more".
[[nodiscard]] std::string first_names(const std::vector<std::string>& names, std::size_t most);

// The text without the letters of `blanks` at both ends.
[[nodiscard]] inline std::string_view trimmed(std::string_view text,
                                              std::string_view blanks = " \t\r") {
  const std::size_t begin = text.find_first_not_of(blanks);
  if (begin == text.npos) return text.substr(0, 0);
  return text.substr(begin, text.find_last_not_of(blanks) + 1 - begin);
}

// An exception's text without the stack trace that LibTorch appends to it.
[[nodiscard]] inline std::string without_trace(std::string_view text) {
  return std::string(text.substr(0, text.find("\nException raised from")));
}

// Equal names told apart: the second "a" becomes "a#2", the third "a#3".
[[nodiscard]] std::vector<std::string> distinct_names(const std::vector<std::string>& names);

// `"a" | "b" | "c"`: the words of a choice, quoted, for error messages.
[[nodiscard]] std::string quoted_list(const std::vector<std::string>& words,
                                      std::string_view separator = " | ");

// A shape or list as "[2, 3]".
[[nodiscard]] std::string list_text(const std::vector<std::int64_t>& values);

// The digits in a base from 8 to 16.
[[nodiscard]] std::string digits_text(std::uint64_t value, int base);

// Bytes with a binary unit: "512 B", "1.5 KiB", "3.2 GiB".
[[nodiscard]] std::string human_bytes(std::uint64_t bytes);

// Seconds as "0.42s", "12.3s", "3m05s", "2h07m" or "4d03h"; "--" when negative or not finite.
[[nodiscard]] std::string format_duration(double seconds);

// `value` with `digits` digits after the point ("nan", "inf", "-inf" spelled so).
[[nodiscard]] std::string format_number(double value, int digits);

// The shortest decimal text that reads back as exactly `value`; always has a point or an exponent.
[[nodiscard]] std::string format_exact(double value);

// A count with a decimal unit: "950", "12.3k", "4.56M".
[[nodiscard]] std::string format_count(double value);

// --- Words of commands that messages tell people to type ---

// The text as one word of a shell command, quoted where the shell would split or expand it.
[[nodiscard]] inline std::string shell_word(std::string_view text) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./,:=+@%";
  if (!text.empty() && text.find_first_not_of(kPlain) == text.npos) return std::string(text);
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? "'\\''" : std::string(1, c);
  return out + "'";
}

// --- Text in lines of a limited width, counted in characters (code points of UTF-8) ---

// Columns that a text takes.
[[nodiscard]] std::size_t text_width(const std::string& text);

// Columns of the longest part without a blank.
[[nodiscard]] std::size_t longest_word(const std::string& text);

// The text, or its beginning and ".." in `width` columns (at least 2) where it is longer.
[[nodiscard]] std::string shortened(std::string text, std::size_t width);

// Breaks a text into lines of at most `width` columns (at least 1), the lines after the first
// indented by `indent` (less than width): at blanks; a word that is longer than a line also after
// '_', '/' and '-', before a '.' of a dotted name, and, where that is not enough, anywhere. At
// least one line.
[[nodiscard]] std::vector<std::string> wrap_text(const std::string& text, std::size_t width,
                                                 std::size_t indent = 0);

// --- Text tables ---

// Rows of cells under headings, padded to equal widths (counted in characters). The first column is
// aligned to the left, all others to the right.
class Table {
 public:
  explicit Table(std::vector<std::string> headings);

  // Missing cells are empty. std::logic_error for more cells than headings.
  void add_row(std::vector<std::string> cells);
  // Lines ending in '\n', without blanks at their ends, of at most `width` columns (0 = as wide as
  // the table is). A table that is wider gets headings and first cells of several lines; where that
  // is not enough, its columns come in blocks one below the other, each with the first column and
  // the rows that have cells in it.
  [[nodiscard]] std::string text(std::size_t width = 0) const;

 private:
  std::vector<std::string> headings_;
  std::vector<std::vector<std::string>> rows_;
};

// The JSON type of the project: keys keep their order, so written files are deterministic. Files
// that read or make values include <nlohmann/json.hpp>, which costs seconds, for themselves.
using Json = nlohmann::ordered_json;

// JSON has no NaN and no infinity: they become null.
[[nodiscard]] Json number_or_null(double value);

}  // namespace mneme
