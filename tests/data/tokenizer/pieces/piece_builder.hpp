// tokenizer.model files for tests.
#pragma once

#include <bit>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "host/data/tokenizer/pieces/piece_file.hpp"
#include "host/data/tokenizer/tokenizer.hpp"

namespace mneme::test {

// --- protobuf's wire format ---

inline std::string varint(std::uint64_t value) {
  std::string out;
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(0x80 | (value & 0x7F));
  return out + static_cast<char>(value);
}
inline std::string integer_field(std::uint32_t number, std::uint64_t value) {
  return varint(std::uint64_t{number} << 3) + varint(value);
}
inline std::string bytes_field(std::uint32_t number, std::string_view bytes) {
  return varint(std::uint64_t{number} << 3 | 2) + varint(bytes.size()) + std::string(bytes);
}
inline std::string real_field(std::uint32_t number, float value) {
  std::string out = varint(std::uint64_t{number} << 3 | 5);
  const auto bits = std::bit_cast<std::uint32_t>(value);
  for (unsigned shift = 0; shift < 32; shift += 8) out += static_cast<char>(bits >> shift & 0xFF);
  return out;
}

// --- Rules for characters ---

inline std::string units(const std::vector<std::uint32_t>& numbers) {
  std::string out;
  for (const std::uint32_t number : numbers) {
    for (unsigned shift = 0; shift < 32; shift += 8) {
      out += static_cast<char>(number >> shift & 0xFF);
    }
  }
  return out;
}

inline std::string map_of(const std::vector<std::uint32_t>& trie, const std::string& replacements) {
  const std::string bytes = units(trie);
  return units({static_cast<std::uint32_t>(bytes.size())}) + bytes + replacements;
}

// A trie of one ASCII letter: the root's children lie at 1 ^ byte, and the letter's value at 2.
inline std::vector<std::uint32_t> trie_of(char letter, std::uint32_t value) {
  const auto byte = static_cast<unsigned char>(letter);
  const std::uint32_t place = 1U ^ byte;
  std::vector<std::uint32_t> out(place + 1, 0);
  out[0] = 1U << 10;
  out[place] = (place ^ 2U) << 10 | 1U << 8 | byte;
  out[2] = 1U << 31 | value;
  return out;
}

inline std::string charsmap_of(char letter, const std::string& replacement) {
  return map_of(trie_of(letter, 0), replacement + std::string(1, '\0'));
}

// --- The model ---

inline std::string piece_bytes(const data::Piece& piece) {
  return bytes_field(1, bytes_field(1, piece.text) + real_field(2, piece.score) +
                            integer_field(3, static_cast<std::uint64_t>(piece.kind)));
}

// The file's values as it is written; what is absent keeps the file's default.
struct PieceModel {
  std::vector<data::Piece> pieces;
  bool is_unigram = false;
  bool falls_back_to_bytes = false;
  std::string charsmap;
  std::optional<bool> adds_space, removes_extra_spaces, marks_spaces;
  std::string more;  // fields behind the others

  // <unk>, <s> and </s>, then the pieces, each with a score one lower than the one before.
  static PieceModel of(const std::vector<std::string>& texts) {
    PieceModel out;
    out.pieces = {{"<unk>", 0.0F, data::PieceKind::kUnknownPiece},
                  {"<s>", 0.0F, data::PieceKind::kControl},
                  {"</s>", 0.0F, data::PieceKind::kControl}};
    for (const std::string& text : texts) {
      out.pieces.push_back({text, 2.0F - static_cast<float>(out.pieces.size())});
    }
    return out;
  }
  void add(const std::string& text, data::PieceKind kind, float score = 0.0F) {
    pieces.push_back({text, score, kind});
  }
  void add_bytes() {
    falls_back_to_bytes = true;
    for (int byte = 0; byte < 256; ++byte) {
      add(data::byte_token(byte), data::PieceKind::kByte);
    }
  }

  [[nodiscard]] std::string bytes() const {
    std::string out;
    for (const data::Piece& piece : pieces) out += piece_bytes(piece);
    out += bytes_field(
        2, integer_field(3, is_unigram ? 1 : 2) + integer_field(35, falls_back_to_bytes ? 1 : 0));
    std::string normalizer = charsmap.empty() ? "" : bytes_field(2, charsmap);
    if (adds_space) normalizer += integer_field(3, *adds_space ? 1 : 0);
    if (removes_extra_spaces) normalizer += integer_field(4, *removes_extra_spaces ? 1 : 0);
    if (marks_spaces) normalizer += integer_field(5, *marks_spaces ? 1 : 0);
    return out + bytes_field(3, normalizer) + more;
  }
  [[nodiscard]] data::PieceFile read() const { return data::read_piece_file(bytes(), "m.model"); }
  [[nodiscard]] data::Tokenizer tokenizer() const {
    data::TokenizerFiles files;
    files.texts["tokenizer.model"] = bytes();
    return data::Tokenizer(std::move(files));
  }
};

}  // namespace mneme::test
