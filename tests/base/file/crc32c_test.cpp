#include <gtest/gtest.h>

#include <span>
#include <string>

#include "host/base/file/checksum.hpp"

namespace mneme {
namespace {

// Bit by bit, from the definition.
std::uint32_t slow(std::string_view text) {
  std::uint32_t crc = 0xFFFFFFFF;
  for (const char c : text) {
    crc ^= static_cast<std::uint8_t>(c);
    for (int i = 0; i < 8; ++i) crc = (crc & 1) != 0 ? (crc >> 1) ^ 0x82F63B78 : crc >> 1;
  }
  return ~crc;
}

TEST(Crc32c, GivesThePublishedValues) {  // RFC 3720, B.4
  EXPECT_EQ(crc32c(""), 0U);
  EXPECT_EQ(crc32c("123456789"), 0xE3069283U);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8A9136AAU);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62A8AB43U);
}

TEST(Crc32c, EqualsTheDefinitionForEveryLengthAndContinues) {
  std::string text;
  for (int i = 0; i < 70; ++i) {
    EXPECT_EQ(crc32c(text), slow(text)) << text.size();
    EXPECT_EQ(crc32c_by_tables(std::as_bytes(std::span(text))), slow(text)) << text.size();
    for (std::size_t cut = 0; cut <= text.size(); cut += 3) {
      const std::string_view view = text;
      EXPECT_EQ(crc32c(view.substr(cut), crc32c(view.substr(0, cut))), slow(text));
    }
    text += static_cast<char>(i * 37 + 11);
  }
}

TEST(Crc32c, ChangesWithEveryBit) {
  std::string text(100, 'x');
  const std::uint32_t whole = crc32c(text);
  for (std::size_t bit = 0; bit < 8 * text.size(); ++bit) {
    text[bit / 8] = static_cast<char>(text[bit / 8] ^ (1 << bit % 8));
    EXPECT_NE(crc32c(text), whole) << bit;
    text[bit / 8] = static_cast<char>(text[bit / 8] ^ (1 << bit % 8));
  }
}

}  // namespace
}  // namespace mneme
