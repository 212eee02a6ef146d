// The blocks of SHA-256 [FIPS 180-4, 6.2.2]: in C++, and with the SHA instructions of x86
// processors, which are some five times as fast. Only for checksum.cpp and its test.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace mneme::sha256 {

inline constexpr std::size_t kBlockBytes = 64;
using State = std::array<std::uint32_t, 8>;  // a to h

// The constants K [4.2.2].
extern const std::array<std::uint32_t, 64> kRounds;

// Takes `blocks` blocks of 64 bytes into the state.
void compress_portable(State& state, const std::uint8_t* bytes, std::size_t blocks);

// True when this processor has the instructions that compress_extended needs.
[[nodiscard]] bool has_extension();
// The same as compress_portable; only where has_extension().
void compress_extended(State& state, const std::uint8_t* bytes, std::size_t blocks);

// The fastest of both.
void compress(State& state, const std::uint8_t* bytes, std::size_t blocks);

}  // namespace mneme::sha256
