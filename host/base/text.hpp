// Text helpers: concatenation, nearest names for "did you mean", and numbers as people read them.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace mneme {

// Concatenates its arguments as an output stream would print them (bool as true/false).
template <typename... Args>
[[nodiscard]] std::string str(const Args&... args) {
  std::ostringstream out;
  out << std::boolalpha;
  static_cast<void>((out << ... << args));
  return out.str();
}

// Number of single-character insertions, deletions, substitutions and swaps of neighbours that turn
// `a` into `b` (optimal string alignment distance, bytes).
[[nodiscard]] std::size_t edit_distance(std::string_view a, std::string_view b);

// The candidate nearest to `name`, or "" when none is within a third of the name's length (at least
// 1, at most 3 edits, and fewer than the name has bytes); the first of equals wins.
[[nodiscard]] std::string nearest(std::string_view name,
                                  const std::vector<std::string>& candidates);

// `" (did you mean \"x\"?)"` when `nearest` finds one, else "".
[[nodiscard]] std::string did_you_mean(std::string_view name,
                                       const std::vector<std::string>& candidates);

// The parts with `separator` between them.
[[nodiscard]] std::string join(const std::vector<std::string>& parts, std::string_view separator);

// `"a" | "b" | "c"`: the words of a choice, quoted, for error messages.
[[nodiscard]] std::string quoted_list(const std::vector<std::string>& words,
                                      std::string_view separator = " | ");

// A shape or list as "[2, 3]".
[[nodiscard]] std::string list_text(const std::vector<std::int64_t>& values);

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

}  // namespace mneme
