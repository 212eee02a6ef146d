// Scores and stems against those of PyPI rouge-score and nltk (make_golden.py), over every
// golden_*.json of this folder.
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "host/scores/overlap/overlap.hpp"
#include "host/scores/overlap/porter_stemmer.hpp"

namespace mneme::scores {
namespace {

using nlohmann::json;

constexpr double kTolerance = 1e-12;  // the files hold 15 digits after the point

// The entries under `key` of all files that have it.
std::vector<json> golden_entries(const std::string& key) {
  std::vector<json> entries;
  const std::filesystem::path folder(MNEME_SOURCE_DIR "/tests/scores/overlap");
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    const std::string name = file.path().filename().string();
    if (!name.starts_with("golden_") || !name.ends_with(".json")) continue;
    std::ifstream stream(file.path());
    const json all = json::parse(stream);
    EXPECT_TRUE(all.contains("pairs") || all.contains("stems"))
        << name << " has nothing to compare";
    if (all.contains(key)) entries.insert(entries.end(), all.at(key).begin(), all.at(key).end());
  }
  return entries;
}

void expect_overlap(const Overlap& got, const json& expected, const std::string& what) {
  EXPECT_NEAR(got.precision, expected.at(0).get<double>(), kTolerance) << what;
  EXPECT_NEAR(got.recall, expected.at(1).get<double>(), kTolerance) << what;
  EXPECT_NEAR(got.f, expected.at(2).get<double>(), kTolerance) << what;
}

TEST(OverlapGolden, RougeEqualsThatOfRougeScore) {
  std::size_t compared = 0;
  for (const json& pair : golden_entries("pairs")) {
    const std::string prediction = pair.at("prediction");
    const std::string reference = pair.at("reference");
    const std::string texts = "'" + prediction + "' against '" + reference + "'";
    for (const bool use_stemmer : {false, true}) {
      // Where the stemmer changes nothing, the file has its values once.
      const json& both = pair.at("rouge");
      const json& expected = both.at(!use_stemmer && both.contains("plain") ? "plain" : "stem");
      const Rouge got = rouge(prediction, reference, {.use_stemmer = use_stemmer});
      expect_overlap(got.rouge1, expected.at("rouge1"), "rouge1 of " + texts);
      expect_overlap(got.rouge2, expected.at("rouge2"), "rouge2 of " + texts);
      expect_overlap(got.rouge_l, expected.at("rougeL"), "rougeL of " + texts);
      expect_overlap(got.rouge_lsum, expected.at("rougeLsum"), "rougeLsum of " + texts);
      ++compared;
    }
  }
  EXPECT_GE(compared, 600U);
}

TEST(OverlapGolden, TokenF1EqualsItsDefinitionInPython) {
  std::size_t compared = 0;
  for (const json& pair : golden_entries("pairs")) {
    const std::string prediction = pair.at("prediction");
    const std::string reference = pair.at("reference");
    const Overlap got = token_f1(prediction, reference);
    // The definition stops where nothing matches.
    expect_overlap(got, pair.at("token_f1"), "F1 of '" + prediction + "' and '" + reference + "'");
    ++compared;
  }
  EXPECT_GE(compared, 300U);
}

TEST(OverlapGolden, MeteorHasNltksMatchesAndAtMostItsChunks) {
  std::size_t equal = 0;
  std::size_t other = 0;
  for (const json& pair : golden_entries("pairs")) {
    const std::string prediction = pair.at("prediction");
    const std::string reference = pair.at("reference");
    const std::string texts = "'" + prediction + "' against '" + reference + "'";
    const json& nltk = pair.at("meteor");
    const MeteorExactStem got =
        meteor_exact_stem(std::string_view(prediction), std::string_view(reference));
    EXPECT_TRUE(got.is_search_complete) << texts;
    EXPECT_EQ(got.matches, nltk.at("matches").get<std::int64_t>()) << texts;
    const std::int64_t chunks = nltk.at("chunks");
    if (nltk.at("is_distinct").get<bool>()) {
      EXPECT_EQ(got.chunks, chunks) << texts;
    } else {
      EXPECT_LE(got.chunks, chunks) << texts;
    }
    if (got.chunks == chunks) {
      EXPECT_NEAR(got.score, nltk.at("score").get<double>(), kTolerance) << texts;
      ++equal;
    } else {
      EXPECT_GT(got.score, nltk.at("score").get<double>()) << texts;
      ++other;
    }
  }
  EXPECT_GE(equal, 200U);
  EXPECT_GE(other, 1U);  // repeated words, of which nltk takes the last ones
}

TEST(OverlapGolden, StemsEqualThoseOfNltk) {
  std::size_t compared = 0;
  for (const json& entry : golden_entries("stems")) {
    const std::string word = entry.at(0);
    EXPECT_EQ(porter_stem(word), entry.at(1).get<std::string>()) << "stem of " << word;
    ++compared;
  }
  EXPECT_GE(compared, 1000U);
}

}  // namespace
}  // namespace mneme::scores
