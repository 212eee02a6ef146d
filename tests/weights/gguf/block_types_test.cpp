#include "host/weights/gguf/block_types.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "host/base/file/checksum.hpp"

namespace mneme::weights {
namespace {

// As dequantized.py.
std::string random_bytes(std::size_t count, std::uint64_t state) {
  std::string out;
  for (std::size_t i = 0; i < count; ++i) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    out += static_cast<char>(state >> 56);
  }
  return out;
}

std::vector<std::size_t> places_of_scales(const BlockType& type) {
  if (type.name == "F32") return {};
  if (type.name == "Q6_K") return {208};
  if (type.name == "Q4_1" || type.name == "Q5_1" || type.name == "Q4_K" || type.name == "Q5_K")
    return {0, 2};
  return {0};
}

std::string digest_of_numbers(const BlockType& type, const std::string& data) {
  const std::size_t blocks = data.size() / type.bytes;
  std::vector<float> numbers(blocks * type.elements);
  dequantize(type, reinterpret_cast<const std::byte*>(data.data()), blocks, numbers.data());
  for (float& number : numbers) {
    constexpr std::uint32_t kNan = 0x7FC00000;
    if (std::isnan(number)) std::memcpy(&number, &kNan, sizeof(kNan));
  }
  Sha256 digest;
  digest.update(std::as_bytes(std::span(numbers)));
  return digest.hex();
}

TEST(BlockTypes, HaveTheBitsOfTheReferenceProgram) {
  constexpr std::array<std::uint16_t, 12> kSpecial = {0x0000, 0x8000, 0x0001, 0x8001,
                                                      0x03FF, 0x83FF, 0x7BFF, 0xFBFF,
                                                      0x7C00, 0xFC00, 0x7E00, 0xFE01};
  std::ifstream rows(std::filesystem::path(MNEME_SOURCE_DIR) /
                     "tests/weights/gguf/dequantized.txt");
  std::set<std::string> seen;
  for (std::string name, of_random, of_special; rows >> name >> of_random >> of_special;) {
    for (const BlockType& type : block_types()) {
      if (type.name != name) continue;
      seen.insert(name);
      EXPECT_EQ(digest_of_numbers(type, random_bytes(64 * type.bytes, type.id)), of_random) << name;
      std::string special = random_bytes(kSpecial.size() * type.bytes, type.id + 1000);
      for (std::size_t i = 0; i < kSpecial.size(); ++i) {
        for (const std::size_t place : places_of_scales(type)) {
          std::memcpy(special.data() + i * type.bytes + place, &kSpecial[i], sizeof(kSpecial[i]));
        }
      }
      EXPECT_EQ(digest_of_numbers(type, special), of_special) << name;
    }
  }
  EXPECT_EQ(seen.size(), block_types().size());
}

TEST(BlockTypes, AreFoundByTheirNumber) {
  for (const BlockType& type : block_types()) EXPECT_EQ(find_block_type(type.id), &type);
  EXPECT_EQ(find_block_type(10), nullptr);
  EXPECT_EQ(block_type_name(10), "Q2_K");
  EXPECT_EQ(block_type_name(12), "Q4_K");
  EXPECT_EQ(block_type_name(77), "type 77");
}

}  // namespace
}  // namespace mneme::weights
