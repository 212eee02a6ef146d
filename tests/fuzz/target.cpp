#include "tests/fuzz/target.hpp"

#include <stdexcept>

#include "host/base/text.hpp"
#include "host/base/utf8.hpp"

namespace mneme::fuzz {
namespace {

constexpr std::size_t kLongestMessage =
    std::size_t{4} * 65'536 + 64;  // bytes, where all are escaped

}  // namespace

void require(bool holds, std::string_view property) {
  if (!holds) throw std::logic_error(str("this does not hold: ", property));
}

void check_message(std::string_view text) {
  require(!text.empty(), "an error has a message");
  require(text.size() <= kLongestMessage, str("a message of ", text.size(), " bytes is short"));
  for (std::size_t i = 0; i < text.size();) {
    const CodePoint point = decode_utf8(text, i);
    require(point.bytes > 0, str("the message is UTF-8 at its byte ", i, ": ", text));
    const bool is_control = point.value < 0x20 || (point.value >= 0x7F && point.value < 0xA0);
    require(!is_control || text[i] == '\n',
            str("the message has no control character at its byte ", i, ": ", text));
    i += point.bytes;
  }
}

bool is_utf8(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t bytes = decode_utf8(text, i).bytes;
    if (bytes == 0) return false;
    i += bytes;
  }
  return true;
}

std::string repeated(std::string_view text, std::size_t n) {
  std::string out;
  out.reserve(text.size() * n);
  for (std::size_t i = 0; i < n; ++i) out += text;
  return out;
}

}  // namespace mneme::fuzz
