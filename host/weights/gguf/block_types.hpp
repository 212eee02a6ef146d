// The forms in which GGUF files hold numbers, and their values in f32.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace mneme::weights {

// Elements lie in blocks; those of a plain type are blocks of one.
struct BlockType {
  std::string_view name;  // "Q4_1"
  std::uint32_t id;       // in the file
  std::size_t elements;   // of a block
  std::size_t bytes;      // of a block
  // The values of one block. A product of its scales and an element has at most 24 significant bits,
  // so it is exact, and fused operations give the same bits as separate ones.
  void (*dequantize)(const std::uint8_t* block, float* out);
};

// All types that are read.
[[nodiscard]] std::span<const BlockType> block_types();

// The type of an id; nullptr when it is not read.
[[nodiscard]] const BlockType* find_block_type(std::uint32_t id);

// "Q2_K", or "type 77" for an id that has no name here.
[[nodiscard]] std::string block_type_name(std::uint32_t id);

// The values of `blocks` blocks that lie one behind the other.
void dequantize(const BlockType& type, const std::byte* data, std::size_t blocks, float* out);

}  // namespace mneme::weights
