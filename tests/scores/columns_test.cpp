#include "host/scores/columns.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <vector>

#include "host/base/file/checksum.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/scores/some_evaluation.hpp"

namespace mneme::test {
namespace {

using scores::Columns;
using scores::SampleUnit;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(Columns, PassOverPlacesWithoutATarget) {
  Columns columns;
  add_segment(columns, 4, {{0, 0, {data::kNoTarget, 5, data::kNoTarget}, {0.0, 2.0, 0.0}}});
  EXPECT_THAT(columns.target, ElementsAre(5));
  EXPECT_THAT(columns.place, ElementsAre(1));
  EXPECT_THAT(columns.distance, ElementsAre(1));
  EXPECT_THAT(columns.segment, ElementsAre(4));
}

TEST(Columns, AreSortedByDocumentPositionAndLane) {
  Columns columns = some_columns();
  columns.sort();
  EXPECT_THAT(columns.document, ElementsAre(0, 0, 0, 1, 1, 1, 2, 2));
  EXPECT_THAT(columns.distance, ElementsAre(1, 2, 3, 0, 1, 3, 0, 1));
  EXPECT_THAT(columns.lane, ElementsAre(0, 0, 0, 0, 0, 1, 1, 1));
  EXPECT_THAT(columns.place, ElementsAre(0, 1, 2, 0, 1, 0, 0, 1));
  EXPECT_THAT(columns.segment, ElementsAre(0, 0, 0, 1, 1, 0, 1, 1));
  EXPECT_THAT(columns.target, ElementsAre(3, 4, 5, 6, 7, 9, 1, 2));
  EXPECT_THAT(columns.narrow_nll, ElementsAre(0.5F, 1.5F, 2.25F, 3.0F, 0.75F, 0.125F, 1.0F, 2.0F));
  EXPECT_THAT(columns.correct, ElementsAre(1, 0, 0, 0, 1, 1, 0, 0));
}

TEST(Columns, KeepPredictionsWithTheirTargets) {
  Columns columns;
  data::TokenSegment segment;
  segment.prepare(2, 2, /*has_source=*/false);
  segment.targets = {5, data::kNoTarget, 6, 7};
  columns.add(segment,
              {.nll = {1.0, 1.0, 1.0, 1.0},
               .correct = {0, 0, 1, 0},
               .best = {9, 8, 6, 4},
               .document = {1, 1, 0, 0},
               .distance = {3, 4, 0, 1}},
              /*keeps_predictions=*/true);
  columns.sort();
  EXPECT_THAT(columns.target, ElementsAre(6, 7, 5));
  EXPECT_THAT(columns.predicted, ElementsAre(6, 4, 9));
  EXPECT_THAT(some_columns().predicted, IsEmpty());
}

// Sums of floating-point numbers depend on their order, so these would differ in any other.
TEST(Columns, AddUpInTheStreamsOrderAlsoWhenSorted) {
  std::mt19937_64 random(5);
  std::uniform_real_distribution<double> draw(0.0, 12.0);
  Columns columns;
  double sum = 0.0;
  for (std::int64_t index = 0; index < 40; ++index) {
    std::vector<LaneScores> lanes;
    for (std::int64_t lane = 0; lane < 3; ++lane) {
      lanes.push_back({.document = 7 - lane, .distance = index * 5, .targets = {}, .nll = {}});
      for (int t = 0; t < 5; ++t) {
        lanes.back().targets.push_back(t);
        lanes.back().nll.push_back(draw(random));
        sum += lanes.back().nll.back();
      }
    }
    add_segment(columns, index, lanes);
  }
  EXPECT_EQ(columns.total().nll, sum);
  columns.sort();
  EXPECT_EQ(columns.total().nll, sum);
  EXPECT_EQ(columns.total().targets, 600);
  double sorted_sum = 0.0;
  for (std::size_t i = 0; i < 600; ++i) sorted_sum += columns.nll(i);
  EXPECT_NE(sorted_sum, sum) << "the test would not notice another order";
}

TEST(Columns, KeepEveryBitOfALoss) {
  Columns columns;
  add_segment(columns, 0, {{0, 0, {1, 2}, {0.5, 1.25}}});
  EXPECT_FALSE(columns.is_wide());
  add_segment(columns, 1, {{0, 2, {3, 4}, {0.1, 0.5}}});  // 0.1 is no float
  EXPECT_TRUE(columns.is_wide());
  EXPECT_THAT(columns.narrow_nll, IsEmpty());
  EXPECT_THAT(columns.wide_nll, ElementsAre(0.5, 1.25, 0.1, 0.5));
}

TEST(Columns, RefuseNumbersThatDoNotFit) {
  Columns columns;
  const auto big = std::int64_t{1} << 31;
  EXPECT_EQ(error_of([&] {
              add_segment(columns, 0, {{big, 0, {1}, {0.5}}});
            }),
            "1: the stored column \"document\": a value does not fit: expected -1 to 2147483647, "
            "got 2147483648");
}

TEST(Samples, AreDocumentsWhicheverLanesReadThem) {
  Columns columns = some_columns();
  columns.sort();
  const auto samples = scores::make_samples(columns, SampleUnit::kDocument, "valid", 7);
  ASSERT_EQ(samples.size(), 3U);
  EXPECT_EQ(samples[1].id, "valid/1");
  EXPECT_EQ(samples[1].document, 1);
  EXPECT_EQ(samples[1].seed, 7U);
  EXPECT_EQ(samples[1].sums, (scores::Sums{.targets = 3, .nll = 3.875, .correct = 2}));
  // The ids 6, 7 and 9 as four bytes each.
  const std::string ids("\6\0\0\0\7\0\0\0\11\0\0\0", 12);
  EXPECT_EQ(samples[1].sha256, sha256_hex(ids).substr(0, 16));
  EXPECT_THAT(samples_of_targets(columns, SampleUnit::kDocument),
              ElementsAre(0, 0, 0, 1, 1, 1, 2, 2));
}

TEST(Samples, OfTheSameDocumentWithOtherTextHaveAnotherChecksum) {
  std::vector<std::string> checksums;
  for (const std::int64_t id : {3, 4}) {
    Columns columns;
    add_segment(columns, 0, {{0, 1, {id, 8}, {1.0, 1.0}}});
    checksums.push_back(
        scores::make_samples(columns, SampleUnit::kDocument, "test", 1).at(0).sha256);
  }
  EXPECT_NE(checksums[0], checksums[1]);
}

TEST(Samples, OfLanesThatNumberTheirEpisodesAreToldApartByLane) {
  Columns columns;
  const std::vector<std::uint8_t> source = {0, 1, 2, 2};
  add_segment(columns, 0, {{0, 0, {1, 2}, {0.5, 0.5}}, {0, 0, {3, 4}, {2.0, 4.0}}}, source);
  columns.sort();
  const auto samples = scores::make_samples(columns, SampleUnit::kEpisode, "valid", 1);
  ASSERT_EQ(samples.size(), 2U);
  EXPECT_EQ(samples[0].id, "valid/lane0/0");
  EXPECT_EQ(samples[1].id, "valid/lane1/0");
  EXPECT_EQ(samples[0].slices.at("inside"), (scores::Sums{.targets = 1, .nll = 0.5, .correct = 1}));
  EXPECT_EQ(samples[1].slices.at("outside"),
            (scores::Sums{.targets = 2, .nll = 6.0, .correct = 0}));
  EXPECT_EQ(samples[1].slices.count("none"), 0U);
}

TEST(Samples, AreWholeLanesWhereDocumentsAreUnknown) {
  Columns columns;
  for (std::int64_t index = 0; index < 2; ++index) {
    add_segment(columns, index, {{-1, -1, {1, 2}, {1.0, 2.0}}, {-1, -1, {3, 4}, {3.0, 4.0}}});
  }
  columns.sort();
  const auto samples = scores::make_samples(columns, SampleUnit::kLane, "valid", 1);
  ASSERT_EQ(samples.size(), 2U);
  EXPECT_EQ(samples[1].id, "valid/lane1");
  EXPECT_EQ(samples[1].document, -1);
  EXPECT_EQ(samples[1].sums.nll, 14.0);
  EXPECT_THAT(columns.target, ElementsAre(1, 2, 1, 2, 3, 4, 3, 4));
}

}  // namespace
}  // namespace mneme::test
