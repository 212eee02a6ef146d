// Models of pieces against naive segmentations.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "host/base/utf8.hpp"
#include "host/data/tokenizer/pieces/piece_parts.hpp"
#include "tests/data/data_files.hpp"
#include "tests/data/tokenizer/pieces/piece_builder.hpp"
#include "tests/seed.hpp"

namespace mneme::data {
namespace {

using PieceIds = std::vector<std::int32_t>;
using test::PieceModel;
using testing::ElementsAre;

std::vector<std::string> split_characters(const std::string& text) {
  std::vector<std::string> out;
  for (std::size_t i = 0; i < text.size(); i += out.back().size()) {
    out.push_back(text.substr(i, decode_utf8(text, i).bytes));
  }
  return out;
}

// By the definition: of all neighbours whose joined text is a normal piece those with the highest
// score are joined, the first of equals, until there are none. What is no piece then is unknown.
PieceIds merged_naively(const PieceFile& file, const std::string& text) {
  std::map<std::string, std::int32_t> ids;
  for (std::size_t i = 0; i < file.pieces.size(); ++i) {
    ids[file.pieces[i].text] = static_cast<std::int32_t>(i);
  }
  std::vector<std::string> parts = split_characters(text);
  for (;;) {
    std::size_t best = parts.size();
    float score = 0.0F;
    for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
      const auto found = ids.find(parts[i] + parts[i + 1]);
      if (found == ids.end()) continue;
      const Piece& piece = file.pieces[static_cast<std::size_t>(found->second)];
      if (piece.kind != PieceKind::kNormal) continue;
      if (best < parts.size() && piece.score <= score) continue;
      best = i;
      score = piece.score;
    }
    if (best == parts.size()) break;
    parts[best] += parts[best + 1];
    parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
  PieceIds out;
  for (const std::string& part : parts) {
    const auto found = ids.find(part);
    const std::int32_t id = found == ids.end() ? file.unknown : found->second;
    if (id == file.unknown && file.falls_back_to_bytes) {
      for (const char byte : part)
        out.push_back(ids.at(byte_token(static_cast<unsigned char>(byte))));
    } else if (id != file.unknown || out.empty() || out.back() != id) {
      out.push_back(id);
    }
  }
  return out;
}

// The greatest sum of scores of all ways to cut a text into pieces and unknown characters; of equal
// sums that with the longest last piece.
struct Cut {
  double sum = -std::numeric_limits<double>::infinity();
  std::size_t last = 0;  // bytes of the last piece
  PieceIds ids;          // unknown characters one by one
};
Cut cut_naively(const PieceFile& file, const std::string& text) {
  Cut best;
  if (text.empty()) {
    best.sum = 0.0;
    return best;
  }
  float least = std::numeric_limits<float>::max();
  for (const Piece& piece : file.pieces) {
    if (piece.kind == PieceKind::kNormal) least = std::min(least, piece.score);
  }
  const auto offer = [&](std::size_t bytes, std::int32_t id, double score) {
    Cut cut = cut_naively(file, text.substr(0, text.size() - bytes));
    cut.sum += score;
    cut.last = bytes;
    cut.ids.push_back(id);
    if (cut.sum > best.sum || (cut.sum == best.sum && bytes > best.last)) best = std::move(cut);
  };
  const std::size_t character = text.size() - start_of_last_character(text);
  bool is_piece = false;
  for (std::size_t i = 0; i < file.pieces.size(); ++i) {
    const Piece& piece = file.pieces[i];
    if (piece.kind != PieceKind::kNormal || !text.ends_with(piece.text)) continue;
    is_piece = is_piece || piece.text.size() == character;
    offer(piece.text.size(), static_cast<std::int32_t>(i), static_cast<double>(piece.score));
  }
  if (!is_piece) offer(character, file.unknown, static_cast<double>(least - 10.0F));
  return best;
}

PieceIds fused(const PieceIds& ids, std::int32_t unknown) {
  PieceIds out;
  for (const std::int32_t id : ids) {
    if (id != unknown || out.empty() || out.back() != id) out.push_back(id);
  }
  return out;
}

PieceIds ids_of(TokenModel& model, const std::string& text) {
  PieceIds ids;
  static_cast<void>(model.encode(text, ids));
  return ids;
}

class PieceModels : public testing::Test {
 protected:
  std::string word(std::size_t most) {
    static const std::vector<std::string> kLetters = {"a", "b", "c", "\u00e9", "\u2581", "z"};
    std::string out;
    const std::size_t length = 1 + random_() % most;
    for (std::size_t i = 0; i < length; ++i) out += kLetters[random_() % kLetters.size()];
    return out;
  }
  // Of pieces in which not every character is one itself, with some equal scores.
  PieceModel model(bool has_bytes) {
    PieceModel out = PieceModel::of({});
    std::map<std::string, bool> seen;
    for (const char* text : {"a", "b", "\u2581"}) seen[text] = true;
    for (int i = 0; i < 14; ++i) seen[word(4)] = true;
    for (const auto& [text, is_there] : seen) {
      out.add(text, PieceKind::kNormal, -static_cast<float>(random_() % 9));
    }
    if (has_bytes) out.add_bytes();
    return out;
  }

  std::mt19937 random_{test::drawn_seed("pieces")};
};

TEST_F(PieceModels, BytePairsAreThoseOfTheDefinition) {
  for (int i = 0; i < 60; ++i) {
    const PieceFile file = model(i % 2 == 0).read();
    const auto pairs = piece_model(file);
    for (int j = 0; j < 30; ++j) {
      const std::string text = word(j < 25 ? 12 : 80);
      ASSERT_EQ(ids_of(*pairs, text), merged_naively(file, text)) << text;
    }
  }
}

TEST_F(PieceModels, UnigramsAreThoseWithTheGreatestSum) {
  for (int i = 0; i < 60; ++i) {
    PieceModel given = model(false);
    given.is_unigram = true;
    // Sums of such scores are exact.
    for (Piece& piece : given.pieces) piece.score -= static_cast<float>(random_() % 512) / 512.0F;
    const PieceFile file = given.read();
    const auto unigrams = piece_model(file);
    for (int j = 0; j < 20; ++j) {
      const std::string text = word(7);
      ASSERT_EQ(ids_of(*unigrams, text), fused(cut_naively(file, text).ids, 0)) << text;
    }
  }
}

TEST_F(PieceModels, ALongTextIsCutAsItsParts) {
  PieceModel given = PieceModel::of({"\u2581ab", "\u2581", "a", "b"});
  given.is_unigram = true;
  const auto unigrams = piece_model(given.read());
  std::string text;
  for (int i = 0; i < 60'000; ++i) text += "\u2581ab";  // 300 KB
  EXPECT_EQ(ids_of(*unigrams, text), PieceIds(60'000, 3));
  // A run of unknown characters that is cut is one token still.
  EXPECT_EQ(ids_of(*unigrams, std::string(150'000, 'z')), PieceIds(1, 0));
}

TEST(Unigram, CountsUnknownCharacters) {
  PieceModel given = PieceModel::of({"a"});
  given.is_unigram = true;
  PieceIds ids;
  EXPECT_EQ(piece_model(given.read())->encode("xya\u00e9", ids), 3);
  EXPECT_THAT(ids, ElementsAre(0, 3, 0));
  given.add_bytes();
  ids.clear();
  EXPECT_EQ(piece_model(given.read())->encode("xa\u00e9", ids), 0);
  EXPECT_THAT(ids, ElementsAre(4 + 'x', 3, 4 + 0xC3, 4 + 0xA9));
}

TEST(Unigram, TakesUserDefinedPiecesAndNoUnusedOnes) {
  PieceModel given = PieceModel::of({"a", "b", "aba"});
  given.is_unigram = true;
  given.add("ab", PieceKind::kUserDefined, -50.0F);
  given.add("bb", PieceKind::kUnused, 50.0F);
  const auto unigrams = piece_model(given.read());
  EXPECT_THAT(ids_of(*unigrams, "abab"), ElementsAre(6, 6));
  EXPECT_THAT(ids_of(*unigrams, "abbb"), ElementsAre(6, 4, 4));
}

TEST(PieceBpe, MergesCharactersThatAreNoPieces) {
  // As models with pieces of tabs, but none of one.
  PieceModel given = PieceModel::of({"a", "\t\t", "\t\t\t\t"});
  const auto ids = [&](const std::string& text) {
    return ids_of(*piece_model(given.read()), text);
  };
  EXPECT_THAT(ids("\t\ta"), ElementsAre(4, 3));
  EXPECT_THAT(ids("\t\t\t\ta\t"), ElementsAre(5, 3, 0));
  EXPECT_THAT(ids("x\ty"), ElementsAre(0));
  given.add_bytes();
  EXPECT_THAT(ids("\t\t\tx"), ElementsAre(4, 6 + '\t', 6 + 'x'));
}

TEST(PieceBpe, OfEqualScoresTakesTheFirstPlace) {
  PieceModel given = PieceModel::of({"a"});
  given.add("aa", PieceKind::kNormal, -1.0F);
  given.add("aaa", PieceKind::kNormal, -1.0F);
  // "aa" at the first place, which then is joined with the third letter.
  EXPECT_THAT(ids_of(*piece_model(given.read()), "aaaaa"), ElementsAre(5, 4));
}

}  // namespace
}  // namespace mneme::data
