#include "host/base/file/checksum.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "host/base/file/file.hpp"
#include "host/base/file/sha256_blocks.hpp"

namespace mneme {

Sha256::Sha256()
    : state_{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
             0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19} {}

void Sha256::compress(const std::uint8_t* block) { sha256::compress(state_, block, 1); }

void Sha256::update(std::span<const std::byte> bytes) {
  length_ += bytes.size();
  if (filled_ > 0) {
    const std::size_t taken = std::min(bytes.size(), block_.size() - filled_);
    std::memcpy(block_.data() + filled_, bytes.data(), taken);
    filled_ += taken;
    bytes = bytes.subspan(taken);
    if (filled_ < block_.size()) return;
    compress(block_.data());
    filled_ = 0;
  }
  const std::size_t blocks = bytes.size() / block_.size();
  sha256::compress(state_, reinterpret_cast<const std::uint8_t*>(bytes.data()), blocks);
  bytes = bytes.subspan(blocks * block_.size());
  if (!bytes.empty()) std::memcpy(block_.data(), bytes.data(), bytes.size());
  filled_ = bytes.size();
}

void Sha256::update(std::string_view text) { update(std::as_bytes(std::span(text))); }

std::string Sha256::hex() {
  const std::uint64_t bits = length_ * 8;
  // Padding [5.1.1]: a one bit, zeros up to 8 bytes before a block's end, the length in bits.
  block_[filled_++] = 0x80;
  if (filled_ > 56) {
    std::fill(block_.begin() + static_cast<std::ptrdiff_t>(filled_), block_.end(), std::uint8_t{0});
    compress(block_.data());
    filled_ = 0;
  }
  std::fill(block_.begin() + static_cast<std::ptrdiff_t>(filled_), block_.end(), std::uint8_t{0});
  for (std::size_t i = 0; i < 8; ++i) {
    block_[56 + i] = static_cast<std::uint8_t>(bits >> (56 - 8 * i));
  }
  compress(block_.data());
  std::string out;
  for (const std::uint32_t word : state_) {
    for (int shift = 28; shift >= 0; shift -= 4) out += "0123456789abcdef"[(word >> shift) & 15];
  }
  return out;
}

std::string sha256_hex(std::span<const std::byte> bytes) {
  Sha256 digest;
  digest.update(bytes);
  return digest.hex();
}

std::string sha256_hex(std::string_view text) { return sha256_hex(std::as_bytes(std::span(text))); }

std::string sha256_file(const std::filesystem::path& path) {
  return sha256_hex(MappedFile(path).bytes());
}

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

#if defined(__x86_64__)
// The processor's instruction for this polynomial, five times as fast as tables.
__attribute__((target("sse4.2"))) std::uint32_t crc_by_instruction(const std::byte* at,
                                                                   std::size_t left,
                                                                   std::uint32_t before) {
  std::uint64_t crc = before;
  for (; left >= 8; left -= 8, at += 8) {
    std::uint64_t bytes = 0;
    std::memcpy(&bytes, at, 8);
    crc = __builtin_ia32_crc32di(crc, bytes);
  }
  auto last = static_cast<std::uint32_t>(crc);
  for (; left > 0; --left, ++at) {
    last = __builtin_ia32_crc32qi(last, std::to_integer<std::uint8_t>(*at));
  }
  return last;
}
#endif

}  // namespace

std::uint32_t crc32c_by_tables(std::span<const std::byte> bytes, std::uint32_t before) {
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

std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t before) {
#if defined(__x86_64__)
  static const bool has_instruction = __builtin_cpu_supports("sse4.2") != 0;
  if (has_instruction) return ~crc_by_instruction(bytes.data(), bytes.size(), ~before);
#endif
  return crc32c_by_tables(bytes, before);
}

std::uint32_t crc32c(std::string_view text, std::uint32_t before) {
  return crc32c(std::as_bytes(std::span(text)), before);
}

std::string hex_text(std::uint32_t number) {
  std::string out;
  for (int shift = 28; shift >= 0; shift -= 4) out += "0123456789abcdef"[(number >> shift) & 15];
  return out;
}

}  // namespace mneme
