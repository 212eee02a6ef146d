#include "host/weights/gguf/block_types.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "host/base/text.hpp"
#include "mneme/cpp/half.hpp"

namespace mneme::weights {
namespace {

float half(const std::uint8_t* at) {
  Float16 value;
  std::memcpy(&value.bits, at, sizeof(value.bits));
  return value;
}

void plain_f32(const std::uint8_t* block, float* out) { std::memcpy(out, block, sizeof(float)); }

void plain_f16(const std::uint8_t* block, float* out) { *out = half(block); }

void plain_bf16(const std::uint8_t* block, float* out) {
  BFloat16 value;
  std::memcpy(&value.bits, block, sizeof(value.bits));
  *out = value;
}

// 32 elements of 8 bits: scale, elements.
void block_q8_0(const std::uint8_t* block, float* out) {
  const float scale = half(block);
  for (int i = 0; i < 32; ++i) {
    out[i] = scale * static_cast<float>(static_cast<std::int8_t>(block[2 + i]));
  }
}

// Element i of 32 whose low 4 bits lie in 16 bytes: the low halves first.
int nibble(const std::uint8_t* bytes, int i) { return i < 16 ? bytes[i] & 15 : bytes[i - 16] >> 4; }

// The fifth bit of element i, of 32 bits one behind the other.
int fifth_bit(const std::uint8_t* bytes, int i) { return (bytes[i / 8] >> (i % 8) & 1) << 4; }

// 32 elements around 0: scale, bits.
void block_q4_0(const std::uint8_t* block, float* out) {
  const float scale = half(block);
  for (int i = 0; i < 32; ++i) out[i] = scale * static_cast<float>(nibble(block + 2, i) - 8);
}

// 32 elements above a least value: scale, that value, bits.
void block_q4_1(const std::uint8_t* block, float* out) {
  const float scale = half(block);
  const float least = half(block + 2);
  for (int i = 0; i < 32; ++i) out[i] = scale * static_cast<float>(nibble(block + 4, i)) + least;
}

// As Q4_0 with the fifth bits before the others.
void block_q5_0(const std::uint8_t* block, float* out) {
  const float scale = half(block);
  for (int i = 0; i < 32; ++i) {
    const int value = nibble(block + 6, i) | fifth_bit(block + 2, i);
    out[i] = scale * static_cast<float>(value - 16);
  }
}

// As Q4_1 with the fifth bits before the others.
void block_q5_1(const std::uint8_t* block, float* out) {
  const float scale = half(block);
  const float least = half(block + 2);
  for (int i = 0; i < 32; ++i) {
    const int value = nibble(block + 8, i) | fifth_bit(block + 4, i);
    out[i] = scale * static_cast<float>(value) + least;
  }
}

// Scale and least value, 6 bits each, of part i of 8, in 12 bytes: those of the first four parts in
// the low 6 bits of bytes 0-3 and 4-7; those of the last four have their low 4 bits in bytes 8-11
// and their high 2 in the high bits of the bytes before.
std::pair<int, int> scale_and_least(const std::uint8_t* bytes, int i) {
  if (i < 4) return {bytes[i] & 63, bytes[i + 4] & 63};
  return {(bytes[i + 4] & 15) | (bytes[i - 4] >> 6) << 4, bytes[i + 4] >> 4 | (bytes[i] >> 6) << 4};
}

constexpr int kPart = 32;  // elements of a part of Q4_K and Q5_K

// Part 2n and 2n + 1 are the low and the high halves of the same 32 bytes. `high`: 32 bytes whose
// bit n is the fifth of part n; nullptr = there are four bits.
void block_k(const std::uint8_t* block, const std::uint8_t* high, const std::uint8_t* low,
             float* out) {
  const float scale = half(block);
  const float least = half(block + 2);
  for (int part = 0; part < 8; ++part) {
    const auto [own_scale, own_least] = scale_and_least(block + 4, part);
    const float by = scale * static_cast<float>(own_scale);
    const float from = least * static_cast<float>(own_least);
    const std::uint8_t* const bytes = low + kPart * (part / 2);
    for (int i = 0; i < kPart; ++i) {
      int value = part % 2 == 0 ? bytes[i] & 15 : bytes[i] >> 4;
      if (high != nullptr) value |= (high[i] >> part & 1) << 4;
      out[kPart * part + i] = by * static_cast<float>(value) - from;
    }
  }
}

void block_q4_k(const std::uint8_t* block, float* out) { block_k(block, nullptr, block + 16, out); }

void block_q5_k(const std::uint8_t* block, float* out) {
  block_k(block, block + 16, block + 48, out);
}

// 256 elements of 6 bits around 0: low 4 bits, high 2 bits, 16 scales of 8 bits, their scale. Each
// half of 128 has four parts of 32, which share 64 bytes of low and 32 of high bits.
void block_q6_k(const std::uint8_t* block, float* out) {
  const std::uint8_t* const scales = block + 192;
  const float scale = half(block + 208);
  for (int part = 0; part < 8; ++part) {
    const int in_half = part % 4;
    const std::uint8_t* const low = block + 64 * (part / 4) + kPart * (in_half % 2);
    const std::uint8_t* const high = block + 128 + kPart * (part / 4);
    for (int i = 0; i < kPart; ++i) {
      const int four = in_half < 2 ? low[i] & 15 : low[i] >> 4;
      const int value = (four | (high[i] >> (2 * in_half) & 3) << 4) - 32;
      const auto own = static_cast<std::int8_t>(scales[2 * part + i / 16]);
      out[kPart * part + i] = scale * static_cast<float>(own) * static_cast<float>(value);
    }
  }
}

constexpr std::array kBlockTypes = {
    BlockType{"F32", 0, 1, 4, plain_f32},        BlockType{"F16", 1, 1, 2, plain_f16},
    BlockType{"Q4_0", 2, 32, 18, block_q4_0},    BlockType{"Q4_1", 3, 32, 20, block_q4_1},
    BlockType{"Q5_0", 6, 32, 22, block_q5_0},    BlockType{"Q5_1", 7, 32, 24, block_q5_1},
    BlockType{"Q8_0", 8, 32, 34, block_q8_0},    BlockType{"Q4_K", 12, 256, 144, block_q4_k},
    BlockType{"Q5_K", 13, 256, 176, block_q5_k}, BlockType{"Q6_K", 14, 256, 210, block_q6_k},
    BlockType{"BF16", 30, 1, 2, plain_bf16}};

// Types that are not read, for messages.
constexpr std::array<std::pair<std::uint32_t, std::string_view>, 21> kUnreadBlockTypes = {
    {{9, "Q8_1"},     {10, "Q2_K"},  {11, "Q3_K"},   {15, "Q8_K"},  {16, "IQ2_XXS"}, {17, "IQ2_XS"},
     {18, "IQ3_XXS"}, {19, "IQ1_S"}, {20, "IQ4_NL"}, {21, "IQ3_S"}, {22, "IQ2_S"},   {23, "IQ4_XS"},
     {24, "I8"},      {25, "I16"},   {26, "I32"},    {27, "I64"},   {28, "F64"},     {29, "IQ1_M"},
     {34, "TQ1_0"},   {35, "TQ2_0"}, {39, "MXFP4"}}};

}  // namespace

std::span<const BlockType> block_types() { return kBlockTypes; }

const BlockType* find_block_type(std::uint32_t id) {
  const auto* const found = std::ranges::find(kBlockTypes, id, &BlockType::id);
  return found == kBlockTypes.end() ? nullptr : found;
}

std::string block_type_name(std::uint32_t id) {
  if (const BlockType* const type = find_block_type(id)) return std::string(type->name);
  for (const auto& [other, name] : kUnreadBlockTypes) {
    if (other == id) return std::string(name);
  }
  return str("type ", id);
}

void dequantize(const BlockType& type, const std::byte* data, std::size_t blocks, float* out) {
  const auto* block = reinterpret_cast<const std::uint8_t*>(data);
  for (std::size_t i = 0; i < blocks; ++i) {
    type.dequantize(block, out);
    block += type.bytes;
    out += type.elements;
  }
}

}  // namespace mneme::weights
