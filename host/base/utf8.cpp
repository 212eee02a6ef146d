#include "host/base/utf8.hpp"

#include <algorithm>

#include "host/base/text.hpp"

namespace mneme {
namespace {

std::string hexadecimal_escape(char c) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  const auto byte = static_cast<unsigned char>(c);
  return {'\\', 'x', kDigits[byte / 16], kDigits[byte % 16]};
}

std::string shown_text(std::string_view text, bool keeps_lines) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size();) {
    const CodePoint point = decode_utf8(text, i);
    const char32_t c = point.value;  // from 0x200E on: line separators, marks that turn the line
    const bool is_control = c < 0x20 || (c >= 0x7F && c < 0xA0) || c == 0x200E || c == 0x200F ||
                            (c >= 0x2028 && c <= 0x202E) || (c >= 0x2066 && c <= 0x2069);
    if (text[i] == '\n' && keeps_lines) {
      out += '\n';
    } else if (text[i] == '\n' || text[i] == '\t') {
      out += text[i] == '\n' ? "\\n" : "\\t";
    } else if (point.bytes == 0 || is_control) {
      for (std::size_t k = 0; k < std::max<std::size_t>(1, point.bytes); ++k) {
        out += hexadecimal_escape(text[i + k]);
      }
    } else {
      out += text.substr(i, point.bytes);
    }
    i += std::max<std::size_t>(1, point.bytes);
  }
  return out;
}

}  // namespace

bool is_utf8(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t bytes = decode_utf8(text, i).bytes;
    if (bytes == 0) return false;
    i += bytes;
  }
  return true;
}

std::string as_utf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t bytes = decode_utf8(text, i).bytes;
    if (bytes == 0) {
      out += "\uFFFD";
    } else {
      out += text.substr(i, bytes);
    }
    i += std::max<std::size_t>(1, bytes);
  }
  return out;
}

std::string printable(std::string_view text) { return shown_text(text, false); }

std::string printable_lines(std::string_view text) { return shown_text(text, true); }

std::string cut_text(std::string_view text, std::size_t most) {
  if (text.size() <= most) return std::string(text);
  std::size_t end = most;
  while (end > 0 && is_continuation(text[end])) --end;
  return str(text.substr(0, end), " .. (", text.size(), " bytes)");
}

}  // namespace mneme
