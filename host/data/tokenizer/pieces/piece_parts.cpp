#include "host/data/tokenizer/pieces/piece_parts.hpp"

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "host/data/tokenizer/bpe.hpp"
#include "host/data/tokenizer/pieces/unigram.hpp"

namespace mneme::data {
namespace {

constexpr std::string_view kMarkedSpace = "\xE2\x96\x81";  // U+2581

FileJson replacement(std::string_view text, std::string_view content) {
  return {{"type", "Replace"}, {"pattern", {{"String", text}}}, {"content", content}};
}

}  // namespace

std::unique_ptr<TokenModel> piece_model(const PieceFile& file) {
  if (file.is_unigram) return std::make_unique<Unigram>(file);
  std::vector<std::string> tokens;
  tokens.reserve(file.pieces.size());
  for (const Piece& piece : file.pieces) tokens.push_back(piece.text);
  const BpeSettings settings{.unknown = file.unknown,
                             .fuses_unknown = true,
                             .falls_back_to_bytes = file.falls_back_to_bytes};
  std::vector<std::string> hidden;
  const std::vector<Merge> merges = merges_of(file, hidden);
  return std::make_unique<Bpe>(std::move(tokens), merges, settings, hidden);
}

FileJson parts_of_pieces(const PieceFile& file, bool adds_space) {
  FileJson added = FileJson::array();
  for (std::size_t id = 0; id < file.pieces.size(); ++id) {
    const Piece& piece = file.pieces[id];
    const bool is_special =
        piece.kind == PieceKind::kControl || piece.kind == PieceKind::kUnknownPiece;
    // sentencepiece looks for user-defined pieces in the text whose spaces are marked, so that it
    // never finds one with a space.
    const bool is_found = piece.kind == PieceKind::kUserDefined && !file.is_unigram &&
                          !(file.marks_spaces && piece.text.find(' ') != piece.text.npos);
    if (!is_special && !is_found) continue;
    added.push_back({{"id", id},
                     {"content", piece.text},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", !is_special},
                     {"special", is_special}});
  }
  FileJson decoders = FileJson::array({replacement(kMarkedSpace, " ")});
  if (file.falls_back_to_bytes) decoders.push_back({{"type", "ByteFallback"}});
  decoders.push_back({{"type", "Fuse"}});
  if (adds_space || file.removes_extra_spaces) {
    // Texts without extra spaces begin with none.
    const std::int32_t most =
        file.removes_extra_spaces ? std::numeric_limits<std::int32_t>::max() : 1;
    decoders.push_back({{"type", "Strip"}, {"content", " "}, {"start", most}, {"stop", 0}});
  }
  FileJson normalizer;
  if (file.marks_spaces) normalizer = replacement(" ", kMarkedSpace);
  return {{"added_tokens", std::move(added)},
          {"normalizer", std::move(normalizer)},
          {"decoder", {{"type", "Sequence"}, {"decoders", std::move(decoders)}}}};
}

}  // namespace mneme::data
