// A piece of text and where it comes from.
#pragma once

#include <cstddef>
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

// True for bytes that begin with a mark of UTF-16.
[[nodiscard]] inline bool begins_as_utf16(std::string_view bytes) {
  return bytes.starts_with("\xFF\xFE") || bytes.starts_with("\xFE\xFF");
}

}  // namespace mneme::data
