// CRC-32C [RFC 3720, appendix B.4]: polynomial 0x1EDC6F41, reflected, start and final value ~0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace mneme {

// The checksum of `bytes`. `before` is the checksum of what lies before them, so that
// crc32c(b, crc32c(a)) is that of a and b together. Finds every error burst of up to 32 bits.
[[nodiscard]] std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t before = 0);
[[nodiscard]] std::uint32_t crc32c(std::string_view text, std::uint32_t before = 0);

}  // namespace mneme
