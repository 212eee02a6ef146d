#include "host/data/tokenizer/words/byte_alphabet.hpp"

#include <array>
#include <cstddef>

#include "host/base/utf8.hpp"

namespace mneme::data {
namespace {

constexpr std::size_t kCharacters = 0x144;  // all lie below

struct Alphabet {
  std::array<char32_t, 256> character{};
  std::array<int, kCharacters> byte{};  // -1 = none

  Alphabet() {
    byte.fill(-1);
    char32_t next = 0x100;
    for (std::size_t i = 0; i < 256; ++i) {
      const bool stands_for_itself =
          (i >= 0x21 && i <= 0x7E) || (i >= 0xA1 && i <= 0xAC) || i >= 0xAE;
      character[i] = stands_for_itself ? static_cast<char32_t>(i) : next++;
      byte[character[i]] = static_cast<int>(i);
    }
  }
};

const Alphabet& alphabet() {
  static const Alphabet alphabet;
  return alphabet;
}

}  // namespace

void append_as_characters(std::string& out, std::string_view bytes) {
  const Alphabet& table = alphabet();
  for (const char each : bytes) {
    const char32_t character = table.character[static_cast<unsigned char>(each)];
    if (character < 0x80) {
      out += static_cast<char>(character);
    } else {
      out += static_cast<char>(0xC0 | (character >> 6));
      out += static_cast<char>(0x80 | (character & 0x3F));
    }
  }
}

std::optional<std::string> bytes_of_characters(std::string_view characters) {
  std::string bytes;
  for (std::size_t i = 0; i < characters.size();) {
    const CodePoint point = decode_utf8(characters, i);
    if (point.bytes == 0 || point.value >= kCharacters) return std::nullopt;
    const int byte = alphabet().byte[point.value];
    if (byte < 0) return std::nullopt;
    bytes += static_cast<char>(byte);
    i += point.bytes;
  }
  return bytes;
}

}  // namespace mneme::data
