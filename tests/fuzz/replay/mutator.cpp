#include "tests/fuzz/replay/mutator.hpp"

#include <algorithm>
#include <array>
#include <string_view>

namespace mneme::fuzz {
namespace {

using namespace std::string_view_literals;

// What parsers of texts and of binary headers stumble over.
constexpr std::array kPieces = {"0"sv,
                                "-1"sv,
                                "9223372036854775807"sv,
                                "9223372036854775808"sv,
                                "1e999"sv,
                                "1e300"sv,
                                "0.5"sv,
                                "nan"sv,
                                "inf"sv,
                                "null"sv,
                                "true"sv,
                                "\"\""sv,
                                "\""sv,
                                "\"\"\""sv,
                                "'"sv,
                                "{"sv,
                                "}"sv,
                                "["sv,
                                "]"sv,
                                "[[["sv,
                                "{}"sv,
                                "[]"sv,
                                ","sv,
                                ":"sv,
                                "="sv,
                                "."sv,
                                "\\u0000"sv,
                                "\\ud800"sv,
                                "\\"sv,
                                "\n"sv,
                                "\0"sv,
                                "\x1b[31m"sv,
                                "\xff"sv,
                                "\xc2\x9b"sv,
                                "\xef\xbb\xbf"sv,
                                "../"sv,
                                "\xff\xff\xff\xff\xff\xff\xff\xff"sv,
                                "\0\0\0\0\0\0\0\x80"sv,
                                " "sv,
                                "#"sv,
                                "{layer}"sv,
                                "\xf0\x9f\x98\x80"sv};

}  // namespace

std::string Mutator::next() {
  std::string text = one();
  for (std::size_t left = 1 + below(4); left > 0; --left) change(text);
  return text;
}

void Mutator::change(std::string& text) {
  const std::size_t at = below(text.size() + 1);
  const std::size_t bytes = std::min(text.size() - at, 1 + below(below(8) == 0 ? 256 : 8));
  switch (below(9)) {
    case 0:
      if (at < text.size()) text[at] = static_cast<char>(text[at] ^ (1 << below(8)));
      return;
    case 1:
      if (at < text.size()) text[at] = static_cast<char>(below(256));
      return;
    case 2:
      text.erase(at, bytes);
      return;
    case 3:
      text.insert(at, text.substr(at, bytes));
      return;
    case 4:
      text.insert(at, kPieces[below(kPieces.size())]);
      return;
    case 5:
      text.replace(at, bytes, kPieces[below(kPieces.size())]);
      return;
    case 6: {  // a part of another input
      const std::string& other = one();
      const std::size_t from = below(other.size() + 1);
      text.replace(at, bytes, other.substr(from, 1 + below(64)));
      return;
    }
    case 7: {  // a piece of its own, elsewhere
      const std::string piece = text.substr(at, bytes);
      text.insert(below(text.size() + 1), piece);
      return;
    }
    default:
      text.resize(at);
  }
}

}  // namespace mneme::fuzz
