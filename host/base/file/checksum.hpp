// Checksums: SHA-256 [FIPS 180-4] and CRC-32C [RFC 3720].
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace mneme {

// SHA-256 of bytes given in parts: update any number of times, then hex() once.
class Sha256 {
 public:
  Sha256();
  void update(std::span<const std::byte> bytes);
  void update(std::string_view text);
  // The digest as 64 lower-case hexadecimal digits. The object must not be updated afterwards.
  [[nodiscard]] std::string hex();

 private:
  void compress(const std::uint8_t* block);

  std::array<std::uint32_t, 8> state_;
  std::array<std::uint8_t, 64> block_{};
  std::size_t filled_ = 0;
  std::uint64_t length_ = 0;  // bytes
};

[[nodiscard]] std::string sha256_hex(std::span<const std::byte> bytes);
[[nodiscard]] std::string sha256_hex(std::string_view text);
// Digest of a whole file; Error (kRun) when it cannot be read.
[[nodiscard]] std::string sha256_file(const std::filesystem::path& path);

// CRC-32C [RFC 3720, appendix B.4] of `bytes`: polynomial 0x1EDC6F41, reflected, start and final
// value ~0. `before` is the checksum of the bytes before them: crc32c(b, crc32c(a)) is that of a
// and b together. Finds every error burst of up to 32 bits.
[[nodiscard]] std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t before = 0);
[[nodiscard]] std::uint32_t crc32c(std::string_view text, std::uint32_t before = 0);
// The same without an instruction of the processor.
[[nodiscard]] std::uint32_t crc32c_by_tables(std::span<const std::byte> bytes,
                                             std::uint32_t before = 0);
// As 8 lower-case hexadecimal digits.
[[nodiscard]] std::string hex_text(std::uint32_t number);

}  // namespace mneme
