#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "host/scores/overlap/overlap.hpp"
#include "host/scores/overlap/porter_stemmer.hpp"

namespace mneme::scores {
namespace {

MeteorExactStem meteor(std::string_view prediction, std::string_view reference) {
  return meteor_exact_stem(prediction, reference);
}

TEST(Meteor, OfEqualTextsLosesOneChunk) {
  // 3 matches in 1 chunk: P = R = fmean = 1, penalty = 0.5 (1/3)^3 = 1/54.
  const MeteorExactStem got = meteor("The old House", "the OLD house");
  EXPECT_EQ(got.matches, 3);
  EXPECT_EQ(got.chunks, 1);
  EXPECT_DOUBLE_EQ(got.score, 1.0 - 1.0 / 54.0);
}

TEST(Meteor, WeighsRecallNineTimesPrecision) {
  // 2 matches of 4 predicted and 2 expected words, neighbours in both: P = 1/2, R = 1,
  // fmean = (1/2) / (0.45 + 0.1) = 10/11, penalty = 0.5 (1/2)^3 = 1/16.
  const MeteorExactStem got = meteor("see the house now", "the house");
  EXPECT_DOUBLE_EQ(got.precision, 0.5);
  EXPECT_DOUBLE_EQ(got.recall, 1.0);
  EXPECT_DOUBLE_EQ(got.fmean, 10.0 / 11.0);
  EXPECT_DOUBLE_EQ(got.score, 10.0 / 11.0 * 15.0 / 16.0);
  // The other way round R = 1/2: fmean = (1/2) / (0.9 + 0.05) = 10/19.
  EXPECT_DOUBLE_EQ(meteor("the house", "see the house now").fmean, 10.0 / 19.0);
}

TEST(Meteor, PairsStemsAfterWords) {
  // "likes" has an equal word; then "like" and "liked" have the stem "like" left. Chunks:
  // prediction 0 likes-1, prediction 1 like-0: 2 chunks, penalty 0.5.
  const MeteorExactStem got = meteor("likes like", "liked likes");
  EXPECT_EQ(got.exact_matches, 1);
  EXPECT_EQ(got.matches, 2);
  EXPECT_EQ(got.chunks, 2);
  EXPECT_DOUBLE_EQ(got.score, 0.5);
}

TEST(Meteor, TakesTheOccurrencesThatGiveTheFewestChunks) {
  // "a" pairs once. With the first "a" of the reference: [a b], one chunk; nltk takes the last
  // one and has two.
  const MeteorExactStem got = meteor("a b", "a b c a");
  EXPECT_EQ(got.matches, 2);
  EXPECT_EQ(got.chunks, 1);
  // P = 1, R = 1/2, fmean = (1/2) / (0.9 + 0.05) = 10/19, penalty = 0.5 (1/2)^3.
  EXPECT_DOUBLE_EQ(got.score, 10.0 / 19.0 * 15.0 / 16.0);
}

TEST(Meteor, LeavesOutTheOccurrenceThatBreaksAChunk) {
  // Three "a" are predicted, one is expected: only the last stands before "b".
  EXPECT_EQ(meteor("a c a d a b", "a b").chunks, 1);
  EXPECT_EQ(meteor("a c a d a b", "a b").matches, 2);
}

TEST(Meteor, ReproducesTheExampleOfNltksManual) {
  // With synonyms nltk gives 0.6944 for this pair (its documentation); no synonym matches there.
  // 18 predicted and 16 expected words. Pairs: it is a guide to action ensures that the military
  // always? (not expected) ... exact: it, is, a, guide, to, action, ensures, that, the, military,
  // commands, party = 12, and no stem. P = 12/18, R = 12/16, fmean = 0.5 / (0.6 + 0.075) = 20/27.
  // Chunks: [it is a guide to action] [ensures that the military] [commands] [party] = 4,
  // penalty = 0.5 / 27.
  const MeteorExactStem got = meteor(
      "It is a guide to action which ensures that the military always obeys the commands of "
      "the party",
      "It is a guide to action that ensures that the military will forever heed Party "
      "commands");
  EXPECT_EQ(got.matches, 12);
  EXPECT_EQ(got.chunks, 4);
  EXPECT_DOUBLE_EQ(got.score, 20.0 / 27.0 * (1.0 - 0.5 / 27.0));
}

TEST(Meteor, IsZeroWhereNothingMatches) {
  for (const std::string_view text : {"", " ", "other words"}) {
    const MeteorExactStem got = meteor(text, "the house");
    EXPECT_EQ(got.score, 0.0);
    EXPECT_EQ(got.chunks, 0);
    EXPECT_EQ(meteor("the house", text).score, 0.0);
  }
  EXPECT_EQ(meteor("", "").score, 0.0);
}

// The fewest chunks of all alignments with the largest number of equal words and, with that, of
// equal stems, by trying all.
struct Best {
  std::int64_t exact = -1;
  std::int64_t all = -1;
  std::int64_t chunks = 0;
};

Best try_all(const std::vector<std::string>& prediction,
             const std::vector<std::string>& reference) {
  constexpr int kFree = -1;
  Best best;
  std::vector<int> pair(prediction.size(), kFree);
  std::vector<bool> is_used(reference.size(), false);
  const std::function<void(std::size_t)> go_on = [&](std::size_t i) {
    if (i < prediction.size()) {
      for (std::size_t j = 0; j < reference.size(); ++j) {
        if (is_used[j] || porter_stem(prediction[i]) != porter_stem(reference[j])) continue;
        is_used[j] = true;
        pair[i] = static_cast<int>(j);
        go_on(i + 1);
        is_used[j] = false;
        pair[i] = kFree;
      }
      go_on(i + 1);
      return;
    }
    Best got{0, 0, 0};
    for (std::size_t k = 0; k < pair.size(); ++k) {
      if (pair[k] == kFree) continue;
      ++got.all;
      if (prediction[k] == reference[static_cast<std::size_t>(pair[k])]) ++got.exact;
      const bool is_next = k > 0 && pair[k - 1] != kFree && pair[k] == pair[k - 1] + 1;
      if (!is_next) ++got.chunks;
    }
    const bool is_better = got.exact != best.exact ? got.exact > best.exact
                           : got.all != best.all   ? got.all > best.all
                                                   : got.chunks < best.chunks;
    if (is_better) best = got;
  };
  go_on(0);
  return best;
}

TEST(Meteor, FindsTheFewestChunksOfAllAlignments) {
  constexpr unsigned kSeed = 7;
  SCOPED_TRACE("seed " + std::to_string(kSeed));
  std::mt19937 random(kSeed);
  const std::vector<std::string> words = {"like", "likes", "liked", "cat", "cats", "the", "x"};
  const auto text = [&](std::size_t most) {
    std::vector<std::string> out(random() % most + 1);
    const std::size_t kinds = random() % words.size() + 1;
    for (std::string& word : out) word = words[random() % kinds];
    return out;
  };
  for (int i = 0; i < 400; ++i) {
    const std::vector<std::string> prediction = text(6);
    const std::vector<std::string> reference = text(6);
    const Best best = try_all(prediction, reference);
    const MeteorExactStem got = meteor_exact_stem(prediction, reference);
    EXPECT_TRUE(got.is_search_complete);
    EXPECT_EQ(got.exact_matches, best.exact) << i;
    EXPECT_EQ(got.matches, best.all) << i;
    EXPECT_EQ(got.chunks, best.chunks) << i;
  }
}

TEST(Meteor, EndsWithAnUpperBoundWhereWordsAreRepeatedTooOften) {
  std::string prediction;
  std::string reference;
  for (int i = 0; i < 40; ++i) {
    prediction += i % 3 == 0 ? "a b " : "b a ";
    reference += i % 5 == 0 ? "b a " : "a b ";
  }
  const MeteorExactStem got = meteor(prediction, reference);
  EXPECT_EQ(got.matches, 80);
  EXPECT_FALSE(got.is_search_complete);
  EXPECT_GE(got.chunks, 1);
  EXPECT_LE(got.chunks, 80);
  EXPECT_GT(got.score, 0.5);
}

}  // namespace
}  // namespace mneme::scores
