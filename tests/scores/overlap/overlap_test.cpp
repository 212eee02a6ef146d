#include "host/scores/overlap/overlap.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace mneme::scores {
namespace {

using testing::ElementsAre;

TEST(TokenF1, CountsAWordAsOftenAsBothTextsHaveIt) {
  // Prediction: good, good, good, movie (4). Reference: good, good, old, movies (4). Common: good
  // twice, so P = R = F = 2/4.
  const Overlap got = token_f1("A good good good movie.", "Good, good old movies!");
  EXPECT_EQ(got.matches, 2);
  EXPECT_DOUBLE_EQ(got.precision, 0.5);
  EXPECT_DOUBLE_EQ(got.recall, 0.5);
  EXPECT_DOUBLE_EQ(got.f, 0.5);
}

TEST(TokenF1, IsTheHarmonicMean) {
  // Prediction: i, like, it (3). Reference: like (1). P = 1/3, R = 1, F = 2 (1/3) / (4/3) = 1/2.
  const Overlap got = token_f1("I like it", "the like");
  EXPECT_DOUBLE_EQ(got.precision, 1.0 / 3.0);
  EXPECT_DOUBLE_EQ(got.recall, 1.0);
  EXPECT_DOUBLE_EQ(got.f, 0.5);
}

TEST(TokenF1, IsZeroWithoutWords) {
  for (const auto& [prediction, reference] : std::vector<std::pair<std::string, std::string>>{
           {"", "x"}, {"x", ""}, {"", ""}, {"the", "a"}, {"...", "!"}}) {
    const Overlap got = token_f1(prediction, reference);
    EXPECT_EQ(got.precision, 0.0) << prediction << '/' << reference;
    EXPECT_EQ(got.recall, 0.0) << prediction << '/' << reference;
    EXPECT_EQ(got.f, 0.0) << prediction << '/' << reference;
  }
}

TEST(RougeScores, OfASmallPairAreThoseByHand) {
  // Prediction: the cat sat on the mat (6 words, 5 pairs); reference: the cat is on a mat (6, 5).
  // Words in common: the, cat, on, mat = 4. Pairs in common: "the cat". Longest common
  // subsequence: the cat on mat = 4.
  const Rouge got = rouge("The cat sat on the mat.", "the cat is on a mat");
  EXPECT_DOUBLE_EQ(got.rouge1.precision, 4.0 / 6.0);
  EXPECT_DOUBLE_EQ(got.rouge1.recall, 4.0 / 6.0);
  EXPECT_DOUBLE_EQ(got.rouge2.precision, 1.0 / 5.0);
  EXPECT_DOUBLE_EQ(got.rouge2.f, 1.0 / 5.0);
  EXPECT_EQ(got.rouge_l.matches, 4);
  EXPECT_EQ(got.rouge_lsum.matches, 4);
}

TEST(RougeScores, KnowPrecisionFromRecall) {
  // Two of two predicted words are among four of the reference.
  const Rouge got = rouge("blue sky", "a wide blue sky");
  EXPECT_DOUBLE_EQ(got.rouge1.precision, 1.0);
  EXPECT_DOUBLE_EQ(got.rouge1.recall, 0.5);
  EXPECT_DOUBLE_EQ(got.rouge_l.precision, 1.0);
  EXPECT_DOUBLE_EQ(got.rouge_l.recall, 0.5);
}

TEST(RougeScores, JoinLinesOrTakeThemOneByOne) {
  // As one sequence "c d a b" against "a b c d" has a longest subsequence of 2; line by line all
  // four words are found.
  const Rouge got = rouge("c d\na b", "a b\nc d");
  EXPECT_EQ(got.rouge_l.matches, 2);
  EXPECT_EQ(got.rouge_lsum.matches, 4);
}

TEST(OverlapScores, HaveNamesAndAFixedOrder) {
  std::vector<std::string> names;
  for (const NamedScore& score : overlap_scores("", "")) {
    names.emplace_back(score.name);
    EXPECT_EQ(score.value, 0.0) << score.name;
  }
  EXPECT_THAT(names, ElementsAre("token_precision", "token_recall", "token_f1", "rouge1_precision",
                                 "rouge1_recall", "rouge1_f", "rouge2_precision", "rouge2_recall",
                                 "rouge2_f", "rougeL_precision", "rougeL_recall", "rougeL_f",
                                 "rougeLsum_precision", "rougeLsum_recall", "rougeLsum_f",
                                 "meteor_exact_stem"));
}

TEST(OverlapScores, AreThoseOfTheirFunctions) {
  const std::string prediction = "I loved that movies, a lot";
  const std::string reference = "you love that movie";
  const std::vector<NamedScore> got = overlap_scores(prediction, reference);
  const Rouge rouges = rouge(prediction, reference);
  EXPECT_EQ(got[0].value, token_f1(prediction, reference).precision);
  EXPECT_EQ(got[2].value, token_f1(prediction, reference).f);
  EXPECT_EQ(got[4].value, rouges.rouge1.recall);
  EXPECT_EQ(got[8].value, rouges.rouge2.f);
  EXPECT_EQ(got[9].value, rouges.rouge_l.precision);
  EXPECT_EQ(got[14].value, rouges.rouge_lsum.f);
  EXPECT_EQ(got[15].value,
            meteor_exact_stem(std::string_view(prediction), std::string_view(reference)).score);
}

}  // namespace
}  // namespace mneme::scores
