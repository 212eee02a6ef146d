#include "host/data/tokenizer/pieces/piece_normalizer.hpp"

#include <cstdint>
#include <utility>
#include <vector>

#include "host/base/utf8.hpp"

namespace mneme::data {
namespace {

PrefixIndex user_defined_of(const PieceFile& file) {
  std::vector<std::pair<std::string, std::int32_t>> entries;
  for (const Piece& piece : file.pieces) {
    if (piece.kind == PieceKind::kUserDefined) entries.emplace_back(piece.text, 0);
  }
  return PrefixIndex(std::move(entries));
}

}  // namespace

PieceNormalizer::PieceNormalizer(const PieceFile& file, const std::string& place, bool adds_space,
                                 bool of_all_parts)
    : charsmap_(file.charsmap, place),
      user_defined_(user_defined_of(file)),
      space_(file.marks_spaces ? "\xE2\x96\x81" : " "),
      adds_space_(adds_space),
      of_all_parts_(of_all_parts),
      removes_extra_spaces_(file.removes_extra_spaces) {}

Charsmap::Rule PieceNormalizer::first_of(std::string_view text) const {
  if (const std::size_t bytes = user_defined_.longest_prefix(text); bytes > 0) {
    return {bytes, text.substr(0, bytes)};
  }
  if (const Charsmap::Rule rule = charsmap_.find(text); rule.bytes > 0) return rule;
  const std::size_t bytes = decode_utf8(text, 0).bytes;
  return {bytes, text.substr(0, bytes)};
}

std::string PieceNormalizer::normalized(std::string_view text, bool is_at_start) const {
  std::string out;
  while (removes_extra_spaces_ && !text.empty()) {
    const Charsmap::Rule first = first_of(text);
    if (first.replacement != " ") break;
    text.remove_prefix(first.bytes);
  }
  if (text.empty()) return out;
  out.reserve(text.size() + text.size() / 4);
  if (adds_space_ && (is_at_start || of_all_parts_)) out += space_;
  bool follows_space = removes_extra_spaces_;
  while (!text.empty()) {
    const Charsmap::Rule first = first_of(text);
    text.remove_prefix(first.bytes);
    std::string_view written = first.replacement;
    while (follows_space && written.starts_with(' ')) written.remove_prefix(1);
    for (const char& letter : written) {
      out += letter == ' ' ? std::string_view(space_) : std::string_view(&letter, 1);
    }
    if (!written.empty()) follows_space = removes_extra_spaces_ && written.ends_with(' ');
  }
  while (removes_extra_spaces_ && out.ends_with(space_)) out.resize(out.size() - space_.size());
  return out;
}

}  // namespace mneme::data
