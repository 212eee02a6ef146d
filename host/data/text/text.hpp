// A piece of text and where it comes from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace mneme::data {

// A text and the name that messages give it.
struct NamedText {
  std::string source;     // the file's path
  std::string_view text;  // borrowed
  // The text that `text` is a part of, so that messages count lines from its beginning; empty = it
  // is all of it.
  std::string_view whole = {};

  // The text that messages count in, and where `offset` of `text` lies there.
  [[nodiscard]] std::string_view context() const { return whole.empty() ? text : whole; }
  [[nodiscard]] std::size_t place(std::size_t offset) const {
    return static_cast<std::size_t>(text.data() - context().data()) + offset;
  }
};

// The mark that some programs write at the start of UTF-8 files; it is no part of the text.
inline constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

// A file's bytes as a text: without a byte order mark at their start, which messages count as no
// column.
[[nodiscard]] inline NamedText text_of_file(std::string source, std::string_view bytes) {
  if (!bytes.starts_with(kByteOrderMark)) return {std::move(source), bytes};
  return {std::move(source), bytes.substr(kByteOrderMark.size()), bytes};
}

// True for the text at a file's start whose byte order mark was skipped.
[[nodiscard]] inline bool follows_byte_order_mark(const NamedText& text) {
  return text.place(0) == kByteOrderMark.size() && text.context().starts_with(kByteOrderMark);
}

// An encoding of two or four bytes a character.
struct WideEncoding {
  std::string_view name;  // as iconv takes it: "UTF-16" with a mark, else "UTF-16LE"
  bool has_mark = false;

  // "it begins with a mark of UTF-16", "its NUL bytes are those of UTF-16LE".
  [[nodiscard]] std::string text() const;
  // "convert the file (iconv -f UTF-16LE -t UTF-8)"
  [[nodiscard]] std::string hint() const;
};

// The wide encoding that a file's bytes show by a byte order mark or, without one, by the places of
// the NUL bytes in the first 4 KiB: no UTF-8 text holds any. UTF-32: the first byte of each four,
// or the last, is NUL, and so is the one beside it in half of them. UTF-16: half of the bytes at
// even places are NUL, or half of those at odd ones, or 16 of them and one in 16 (a text of other
// than Latin letters has them in blanks and line ends alone), and at most an eighth as many others.
[[nodiscard]] std::optional<WideEncoding> find_wide_encoding(std::string_view bytes);

// --- UTF-8 (host/base/utf8.hpp decodes it): counts, and places in a text as people count them ---

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
// Throws Error (kUsage) for a text whose file is in a wide encoding by its NUL bytes: with Latin
// letters it is valid UTF-8, of twice the characters.
void check_not_wide(const NamedText& text);
// The error of `check_utf8` for the invalid byte at `offset`.
[[noreturn]] void throw_invalid_utf8(const NamedText& text, std::size_t offset);

// Whitespace as Python's str.split() understands it, which the official word vocabularies use.
[[nodiscard]] bool is_space(char32_t value);

// --- Whitespace-separated words and lines ---
// As the official Transformer-XL preparation cuts them (Python's universal newlines, str.split()).

// Calls `on_word` for every word and `on_line_end` at every line end, in order. Lines end with
// "\n", "\r\n" or "\r"; a last line without an end counts too. Error (kUsage) at the first byte
// that is not UTF-8.
void for_each_word(const NamedText& text, const std::function<void(std::string_view)>& on_word,
                   const std::function<void()>& on_line_end);

}  // namespace mneme::data
