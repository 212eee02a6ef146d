// What the reader and the writer of safetensors files share. Not for other code.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "host/base/file/safetensors.hpp"

namespace mneme::safetensors {

inline constexpr std::size_t kLengthBytes = 8;
// The bound of the official implementation.
inline constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;
inline constexpr std::string_view kMetadataKey = "__metadata__";

// Sets `bytes` to product(shape) * element_size; false when an extent is negative or the product
// exceeds 2^63 - 1. An extent of 0 makes it 0, whatever the others.
[[nodiscard]] bool checked_bytes(const std::vector<std::int64_t>& shape, std::size_t element_size,
                                 std::size_t& bytes);

// What a header says. The views point into the bytes that were read.
struct Header {
  std::map<std::string, std::string> metadata;
  std::vector<TensorView> tensors;
};

// Checks a whole file; its errors are those of SafetensorsFile::open.
[[nodiscard]] Header read_header(const std::filesystem::path& path,
                                 std::span<const std::byte> file);

}  // namespace mneme::safetensors
