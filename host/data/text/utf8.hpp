// UTF-8: decoding with checks, and places in a text as people count them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "host/data/text/text.hpp"

namespace mneme::data {

// One decoded character. `bytes` is 0 where the text is not valid UTF-8 (overlong forms,
// surrogates, values above U+10FFFF, stray or missing continuation bytes).
struct CodePoint {
  char32_t value = 0;
  std::size_t bytes = 0;
};

// The character that starts at `offset`, which must be inside the text.
[[nodiscard]] CodePoint decode_utf8(std::string_view text, std::size_t offset);

// Number of characters of a valid text.
[[nodiscard]] std::int64_t count_characters(std::string_view text);
// Number of whitespace-separated words of any text; a byte that is not UTF-8 counts as a letter.
[[nodiscard]] std::int64_t count_words(std::string_view text);

// "source:line:column" of a byte offset: lines end with '\n', columns count characters (an invalid
// byte counts one), both from 1.
[[nodiscard]] std::string position_text(const NamedText& text, std::size_t offset);

// Throws Error (kUsage) at the first byte that is not UTF-8, naming its line, column, value and
// offset in bytes (from 0).
void check_utf8(const NamedText& text);
// The error of `check_utf8` for the invalid byte at `offset`.
[[noreturn]] void throw_invalid_utf8(const NamedText& text, std::size_t offset);

// Whitespace as Python's str.split() understands it, which the official word vocabularies use.
[[nodiscard]] bool is_space(char32_t value);

}  // namespace mneme::data
