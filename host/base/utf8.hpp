// UTF-8: decoding with checks, and text of unknown origin as it can be shown.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace mneme {

// One decoded character. `bytes` is 0 where the text is not valid UTF-8 (overlong forms,
// surrogates, values above U+10FFFF, stray or missing continuation bytes).
struct CodePoint {
  char32_t value = 0;
  std::size_t bytes = 0;
};

// True for every byte of a character but its first.
[[nodiscard]] inline bool is_continuation(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0) == 0x80;
}

// The character that starts at `offset`, which must be inside the text.
[[nodiscard]] inline CodePoint decode_utf8(std::string_view text, std::size_t offset) {
  // Length and payload bits of the sequence that the first byte announces; 0xC0 and 0xC1 would
  // start overlong forms, 0xF5 and above values past U+10FFFF.
  const auto first = static_cast<unsigned char>(text[offset]);
  if (first < 0x80) return {first, 1};
  CodePoint point;
  if (first >= 0xC2 && first <= 0xDF) point = {char32_t{first} & 0x1F, 2};
  if (first >= 0xE0 && first <= 0xEF) point = {char32_t{first} & 0x0F, 3};
  if (first >= 0xF0 && first <= 0xF4) point = {char32_t{first} & 0x07, 4};
  if (point.bytes > text.size() - offset) return {};
  for (std::size_t i = 1; i < point.bytes; ++i) {
    const char byte = text[offset + i];
    if (!is_continuation(byte)) return {};
    point.value = (point.value << 6) | (static_cast<unsigned char>(byte) & 0x3F);
  }
  const bool is_overlong =
      (point.bytes == 3 && point.value < 0x800) || (point.bytes == 4 && point.value < 0x10000);
  const bool is_surrogate = point.value >= 0xD800 && point.value <= 0xDFFF;
  if (is_overlong || is_surrogate || point.value > 0x10FFFF) return {};
  return point;
}

// Where the last character of a text that is not empty starts.
[[nodiscard]] inline std::size_t start_of_last_character(std::string_view text) {
  std::size_t i = text.size() - 1;
  while (i > 0 && is_continuation(text[i])) --i;
  return i;
}

[[nodiscard]] bool is_utf8(std::string_view text);

// The text with U+FFFD for each byte that is no UTF-8: a name of a file as JSON keeps it.
[[nodiscard]] std::string as_utf8(std::string_view text);

// The text with line ends and tabs as \n and \t, and other control characters (also of the line's
// direction) and bytes that are no UTF-8 as \xNN: what can be shown on one line, and does nothing to
// a terminal.
[[nodiscard]] std::string printable(std::string_view text);

// The same with its line ends as they are.
[[nodiscard]] std::string printable_lines(std::string_view text);

// The text. Of a text of more than `most` bytes its beginning, at most `most` bytes, and the number
// of its bytes: "abc .. (1000 bytes)". Characters stay whole.
[[nodiscard]] std::string cut_text(std::string_view text, std::size_t most);

}  // namespace mneme
