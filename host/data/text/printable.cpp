#include "host/data/text/printable.hpp"

#include <algorithm>
#include <cstddef>

#include "host/data/text/text.hpp"

namespace mneme::data {
namespace {

std::string hexadecimal(char c) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  const auto byte = static_cast<unsigned char>(c);
  return {'\\', 'x', kDigits[byte / 16], kDigits[byte % 16]};
}

}  // namespace

std::string printable(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size();) {
    const CodePoint point = decode_utf8(text, i);
    const bool is_control = point.value < 0x20 || (point.value >= 0x7F && point.value < 0xA0);
    if (text[i] == '\n' || text[i] == '\t') {
      out += text[i] == '\n' ? "\\n" : "\\t";
    } else if (point.bytes == 0 || is_control) {
      for (std::size_t k = 0; k < std::max<std::size_t>(1, point.bytes); ++k) {
        out += hexadecimal(text[i + k]);
      }
    } else {
      out += text.substr(i, point.bytes);
    }
    i += std::max<std::size_t>(1, point.bytes);
  }
  return out;
}

}  // namespace mneme::data
