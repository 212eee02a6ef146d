#include "host/base/file/crc32c.hpp"

#include <array>
#include <cstring>

namespace mneme {
namespace {

constexpr std::uint32_t kPolynomial = 0x82F63B78;  // bits reversed

using Table = std::array<std::uint32_t, 256>;

// Table k holds the checksum of a byte with k zero bytes after it: eight bytes take eight
// independent look-ups in place of eight dependent steps (a checkpoint has gigabytes).
constexpr std::array<Table, 8> make_tables() {
  std::array<Table, 8> tables{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? kPolynomial : 0);
    tables[0][byte] = crc;
  }
  for (std::size_t k = 1; k < tables.size(); ++k) {
    for (std::size_t byte = 0; byte < 256; ++byte) {
      const std::uint32_t crc = tables[k - 1][byte];
      tables[k][byte] = (crc >> 8) ^ tables[0][crc & 255];
    }
  }
  return tables;
}

constexpr std::array<Table, 8> kTables = make_tables();

}  // namespace

std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t before) {
  std::uint32_t crc = ~before;
  const std::byte* at = bytes.data();
  std::size_t left = bytes.size();
  for (; left >= 8; left -= 8, at += 8) {
    std::array<std::uint8_t, 8> b{};
    std::memcpy(b.data(), at, 8);
    crc = kTables[7][(crc ^ b[0]) & 255] ^ kTables[6][((crc >> 8) ^ b[1]) & 255] ^
          kTables[5][((crc >> 16) ^ b[2]) & 255] ^ kTables[4][(crc >> 24) ^ b[3]] ^
          kTables[3][b[4]] ^ kTables[2][b[5]] ^ kTables[1][b[6]] ^ kTables[0][b[7]];
  }
  for (; left > 0; --left, ++at) {
    crc = (crc >> 8) ^ kTables[0][(crc ^ std::to_integer<std::uint32_t>(*at)) & 255];
  }
  return ~crc;
}

std::uint32_t crc32c(std::string_view text, std::uint32_t before) {
  return crc32c(std::as_bytes(std::span(text)), before);
}

}  // namespace mneme
