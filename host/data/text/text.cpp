#include "host/data/text/text.hpp"

#include <algorithm>
#include <array>

#include "host/base/error.hpp"
#include "host/base/utf8.hpp"

namespace mneme::data {
namespace {

using namespace std::string_view_literals;

constexpr std::size_t kLookedAt = 4096;  // bytes of a file, for its encoding

constexpr const char* kOrBytes = ", or set data.vocabulary = \"byte\", which takes any bytes";

std::optional<WideEncoding> find_mark(std::string_view bytes) {
  // The mark of UTF-32LE begins with that of UTF-16LE.
  if (bytes.starts_with("\xFF\xFE\0\0"sv) || bytes.starts_with("\0\0\xFE\xFF"sv)) {
    return WideEncoding{.name = "UTF-32", .has_mark = true};
  }
  if (bytes.starts_with("\xFF\xFE") || bytes.starts_with("\xFE\xFF")) {
    return WideEncoding{.name = "UTF-16", .has_mark = true};
  }
  return std::nullopt;
}

}  // namespace

std::string WideEncoding::text() const {
  return str(has_mark ? "it begins with a mark of " : "its NUL bytes are those of ", name);
}

std::string WideEncoding::hint() const {
  return str("convert the file (iconv -f ", name, " -t UTF-8)");
}

std::optional<WideEncoding> find_wide_encoding(std::string_view bytes) {
  if (const auto marked = find_mark(bytes)) return marked;
  const std::string_view head = bytes.substr(0, kLookedAt);
  std::array<std::size_t, 4> nul{};  // by place in a group of four bytes
  for (std::size_t i = 0; i < head.size(); ++i) nul[i % 4] += head[i] == '\0' ? 1 : 0;
  const std::size_t groups = head.size() / 4, pairs = head.size() / 2;
  const bool has_groups = groups > 0 && head.size() % 4 == 0;
  if (has_groups && nul[3] == groups && 2 * nul[2] >= groups && 2 * nul[0] < groups) {
    return WideEncoding{.name = "UTF-32LE"};
  }
  if (has_groups && nul[0] == groups && 2 * nul[1] >= groups && 2 * nul[3] < groups) {
    return WideEncoding{.name = "UTF-32BE"};
  }
  const auto is_wide = [&](std::size_t high, std::size_t low) {
    const bool is_often = (high >= 2 && 2 * high >= pairs) || (high >= 16 && 16 * high >= pairs);
    return head.size() % 2 == 0 && is_often && 8 * low <= high;
  };
  const std::size_t even = nul[0] + nul[2], odd = nul[1] + nul[3];
  if (is_wide(odd, even)) return WideEncoding{.name = "UTF-16LE"};
  if (is_wide(even, odd)) return WideEncoding{.name = "UTF-16BE"};
  return std::nullopt;
}

std::int64_t count_characters(std::string_view text) {
  return std::count_if(text.begin(), text.end(), [](char byte) { return !is_continuation(byte); });
}

std::int64_t count_words(std::string_view text) {
  std::int64_t words = 0;
  bool is_in_word = false;
  for (std::size_t i = 0; i < text.size();) {
    const CodePoint point = decode_utf8(text, i);
    const bool is_letter = point.bytes == 0 || !is_space(point.value);
    if (is_letter && !is_in_word) ++words;
    is_in_word = is_letter;
    i += std::max<std::size_t>(point.bytes, 1);
  }
  return words;
}

std::string position_text(const NamedText& text, std::size_t offset) {
  const std::string_view whole = text.context();
  const std::size_t place = text.place(offset);
  std::size_t line = 1;
  std::size_t column = 1;
  const bool has_mark = whole.starts_with(kByteOrderMark);
  for (std::size_t i = has_mark ? kByteOrderMark.size() : 0; i < place;) {
    if (whole[i] == '\n') {
      ++line;
      column = 0;
    }
    ++column;
    i += std::max<std::size_t>(decode_utf8(whole, i).bytes, 1);
  }
  return str(text.source, ":", line, ":", column);
}

void throw_invalid_utf8(const NamedText& text, std::size_t offset) {
  const std::optional<WideEncoding> wide = find_wide_encoding(text.context());
  const unsigned byte = static_cast<unsigned char>(text.text[offset]);  // at least 0x80
  throw_usage({.where = position_text(text, offset),
               .failed = "the text is not UTF-8",
               .expected = "valid UTF-8",
               .got = str("byte 0x", digits_text(byte, 16), " at byte offset ", text.place(offset)),
               .hint = str(wide ? str(wide->text(), ": ", wide->hint())
                                : std::string("convert the file (iconv -t UTF-8)"),
                           kOrBytes)});
}

void check_not_wide(const NamedText& text) {
  const std::optional<WideEncoding> wide = find_wide_encoding(text.context());
  if (!wide || wide->has_mark) return;  // a mark is no UTF-8, and its place is told
  throw_usage({.where = text.source,
               .failed = "the text is not UTF-8",
               .expected = "valid UTF-8",
               .got = str("NUL bytes at the places of ", wide->name),
               .hint = wide->hint() + kOrBytes});
}

void check_utf8(const NamedText& text) {
  for (std::size_t i = 0; i < text.text.size();) {
    const std::size_t bytes = decode_utf8(text.text, i).bytes;
    if (bytes == 0) throw_invalid_utf8(text, i);
    i += bytes;
  }
}

bool is_space(char32_t value) {
  if (value < 0x80) return (value >= 0x09 && value <= 0x0D) || (value >= 0x1C && value <= 0x20);
  if (value >= 0x2000 && value <= 0x200A) return true;
  switch (value) {
    case 0x85:
    case 0xA0:
    case 0x1680:
    case 0x2028:
    case 0x2029:
    case 0x202F:
    case 0x205F:
    case 0x3000:
      return true;
    default:
      return false;
  }
}

void for_each_word(const NamedText& named, const std::function<void(std::string_view)>& on_word,
                   const std::function<void()>& on_line_end) {
  const std::string_view text = named.text;
  std::size_t word_begin = 0;
  bool is_in_word = false;
  bool is_line_open = false;
  const auto end_word = [&](std::size_t end) {
    if (is_in_word) on_word(text.substr(word_begin, end - word_begin));
    is_in_word = false;
  };
  for (std::size_t i = 0; i < text.size();) {
    CodePoint point = decode_utf8(text, i);
    if (point.bytes == 0) throw_invalid_utf8(named, i);
    if (is_space(point.value)) {
      end_word(i);
    } else if (!is_in_word) {
      word_begin = i;
      is_in_word = true;
    }
    is_line_open = point.value != U'\n' && point.value != U'\r';
    if (!is_line_open) {
      if (point.value == U'\r' && i + 1 < text.size() && text[i + 1] == '\n') ++point.bytes;
      on_line_end();
    }
    i += point.bytes;
  }
  end_word(text.size());
  if (is_line_open) on_line_end();
}

}  // namespace mneme::data
