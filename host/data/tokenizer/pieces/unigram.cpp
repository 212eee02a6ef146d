#include "host/data/tokenizer/pieces/unigram.hpp"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "host/base/utf8.hpp"

namespace mneme::data {
namespace {

constexpr float kUnknownPenalty = 10.0F;
// Bytes behind which a text is cut where no token reaches over the place: memory stays bounded.
constexpr std::size_t kDecidedBytes = std::size_t{1} << 16;

// Of a user-defined token, whatever the file says; those of trained tokens are below 0.
float user_score(std::string_view text) { return 0.1F * static_cast<float>(text.size()) - 0.1F; }

std::vector<std::string> texts_of(const PieceFile& file) {
  std::vector<std::string> out;
  out.reserve(file.pieces.size());
  for (const Piece& piece : file.pieces) out.push_back(piece.text);
  return out;
}

// The tokens that a text may be cut into.
PrefixIndex index_of(const PieceFile& file) {
  std::vector<std::pair<std::string, std::int32_t>> entries;
  for (std::size_t i = 0; i < file.pieces.size(); ++i) {
    const PieceKind kind = file.pieces[i].kind;
    if (kind != PieceKind::kNormal && kind != PieceKind::kUserDefined) continue;
    entries.emplace_back(file.pieces[i].text, static_cast<std::int32_t>(i));
  }
  return PrefixIndex(std::move(entries));
}

}  // namespace

Unigram::Unigram(const PieceFile& file)
    : TokenModel(texts_of(file)),
      index_(index_of(file)),
      unknown_(file.unknown),
      falls_back_to_bytes_(file.falls_back_to_bytes),
      byte_ids_(ids_of_bytes()) {
  float least = std::numeric_limits<float>::max();
  for (const Piece& piece : file.pieces) {
    const bool is_user_defined = piece.kind == PieceKind::kUserDefined;
    scores_.push_back(is_user_defined ? user_score(piece.text) : piece.score);
    if (piece.kind == PieceKind::kNormal) least = std::min(least, piece.score);
  }
  unknown_score_ = least - kUnknownPenalty;
}

// Fills endings_ for the beginning of a text and returns its bytes: all, or up to a place over
// which no token reaches.
std::size_t Unigram::find_path(std::string_view text) {
  endings_.assign(1, Ending{.is_reached = true});
  std::size_t begin = 0;
  const auto offer = [&](std::size_t end, std::int32_t id, float score) {
    if (endings_.size() <= end) endings_.resize(end + 1);
    Ending& ending = endings_[end];
    if (ending.is_reached && !(score > ending.score)) return;
    ending = {score, id, begin, true};
  };
  while (begin < text.size()) {
    if (begin >= kDecidedBytes && begin + 1 == endings_.size()) return begin;
    const std::size_t character = decode_utf8(text, begin).bytes;
    const float before = endings_[begin].score;
    bool is_token = false;
    index_.for_each_prefix(text.substr(begin), [&](std::size_t bytes, std::int32_t id) {
      offer(begin + bytes, id, scores_[static_cast<std::size_t>(id)] + before);
      is_token = is_token || bytes == character;
    });
    if (!is_token) offer(begin + character, unknown_, unknown_score_ + before);
    begin += character;
  }
  return text.size();
}

std::int64_t Unigram::encode(std::string_view word, std::vector<std::int32_t>& ids) {
  std::int64_t unknown = 0;
  bool follows_unknown = false;
  while (!word.empty()) {
    const std::size_t size = find_path(word);
    ends_.clear();
    for (std::size_t end = size; end > 0; end = endings_[end].begin) ends_.push_back(end);
    for (auto it = ends_.rbegin(); it != ends_.rend(); ++it) {
      const std::size_t end = *it;
      const Ending& last = endings_[end];
      const bool is_unknown = last.id == unknown_;
      if (is_unknown && falls_back_to_bytes_) {
        for (const char byte : word.substr(last.begin, end - last.begin)) {
          ids.push_back(byte_ids_[static_cast<unsigned char>(byte)]);
        }
        continue;
      }
      if (is_unknown) ++unknown;
      if (!is_unknown || !follows_unknown) ids.push_back(last.id);
      follows_unknown = is_unknown;
    }
    word.remove_prefix(size);
  }
  return unknown;
}

}  // namespace mneme::data
