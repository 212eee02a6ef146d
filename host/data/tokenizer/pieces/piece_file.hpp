// tokenizer.model: the file of a trained tokenizer of sentencepiece [Kudo and Richardson 2018].
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "host/data/tokenizer/bpe.hpp"

namespace mneme::data {

// The values are those of the file.
enum class PieceKind {
  kNormal = 1,
  kUnknownPiece = 2,  // what takes the place of characters that no piece has
  kControl = 3,       // "<s>", which no text contains
  kUserDefined = 4,   // always one token where a text has it
  kUnused = 5,        // no text becomes it
  kByte = 6,          // "<0x0A>"
};

struct Piece {
  std::string text;
  float score = 0.0F;
  PieceKind kind = PieceKind::kNormal;
};

// What the file says of ids and texts; what it says of its training is passed over.
struct PieceFile {
  std::vector<Piece> pieces;  // by id
  bool is_unigram = true;     // else byte pair encoding
  bool falls_back_to_bytes = false;
  std::int32_t unknown = 0;           // the id of the piece kUnknownPiece
  std::optional<std::int32_t> begin;  // that of the control piece that begins a text
  std::string charsmap;               // charsmap.hpp; "" = characters stay as they are
  bool adds_space = true;             // before a text
  bool removes_extra_spaces = true;   // at the ends of a text, and all but one between words
  bool marks_spaces = true;           // a space becomes U+2581
};

// Reads the bytes of a file, which messages call `file`. Every error is an Error (kUsage) that
// names the byte or the piece, what is expected and what is there: bytes that are no ModelProto of
// protobuf, pieces that are empty, no UTF-8, longer than 1,024 bytes or there twice, scores that
// are no finite numbers, no unknown piece or two, some pieces of bytes but not all, and what is not
// supported: models of words and of characters, spaces behind words, rules for decoded texts, and
// unused pieces in byte pair encoding.
[[nodiscard]] PieceFile read_piece_file(std::string_view bytes, const std::string& file);

// The pairs of pieces that byte pair encoding merges: any two whose texts give a normal piece, the
// highest score first. Pairs of one score have one rank. `hidden` gets the characters of pieces
// that are no pieces themselves; their ids in the merges follow those of the pieces.
[[nodiscard]] std::vector<Merge> merges_of(const PieceFile& file, std::vector<std::string>& hidden);

}  // namespace mneme::data
