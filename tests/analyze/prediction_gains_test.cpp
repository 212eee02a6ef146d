#include "host/analyze/measures/prediction_gains.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/analyze/views.hpp"
#include "tests/base/temporary_folder.hpp"

namespace mneme::analyze {
namespace {

using ::mneme::test::error_of;
using ::testing::HasSubstr;

// One lane; token i predicts id i + 1.
data::TokenSegment better_segment_of(std::int64_t first, std::int64_t length) {
  data::TokenSegment segment;
  segment.prepare(1, length, false);
  for (std::int64_t t = 0; t < length; ++t) {
    segment.inputs[static_cast<std::size_t>(t)] = first + t;
    segment.targets[static_cast<std::size_t>(t)] = first + t + 1;
  }
  segment.valid = {length};
  return segment;
}

// Gains 1, -1, 3, 0 in segments of two; the other evaluation read one segment of four.
TEST(PredictionGains, KeepsTheLargestGainsAndWhereTheyLooked) {
  TargetLosses other;
  other.add(better_segment_of(0, 4), {2.0, 2.0, 4.0, 1.0});
  PredictionGains better(other, 1, 0.05);
  TokenCells space;
  space.begin(std::vector<double>{0.25, 0.75}, 0);
  better.begin(better_segment_of(0, 2), {1.0, 3.0});
  better.add(reading(space, {{narrow(0.2), narrow(0.2)}}, 0));
  ASSERT_EQ(better.targets().size(), 1U);
  EXPECT_EQ(better.targets()[0].token, 0);
  better.begin(better_segment_of(2, 2), {1.0, 1.0});
  // Of query 0: head 0 looks at token 1, head 1 at both alike.
  better.add(reading(space, {{narrow(0.9), narrow(0.1)}, {narrow(0.5), narrow(0.1)}}, 2));
  ASSERT_EQ(better.targets().size(), 1U);
  const GainedTarget& word = better.targets()[0];
  EXPECT_EQ(word.token, 2);
  EXPECT_EQ(word.target, 3);
  EXPECT_DOUBLE_EQ(word.gain(), 3.0);
  ASSERT_EQ(word.looked_at.size(), 2U);
  EXPECT_EQ(word.looked_at[0].token, 1);
  EXPECT_NEAR(word.looked_at[0].mass, 0.75, 1e-12);
  EXPECT_NEAR(word.looked_at[1].mass, 0.25, 1e-12);
  const PredictionGains::Summary summary = better.summary();
  EXPECT_EQ(summary.targets, 4);
  EXPECT_EQ(summary.better, 2);
  EXPECT_DOUBLE_EQ(summary.mean_gain, 0.75);
}

TEST(PredictionGains, LeavesOutWordsBelowTheThresholdAndPlacesWithoutAMap) {
  TargetLosses other;
  other.add(better_segment_of(0, 1), {2.0});
  PredictionGains better(other, 5, 0.3);
  TokenCells space;
  space.begin(std::vector<double>{0.25, 0.75}, 0);
  better.begin(better_segment_of(0, 1), {1.0});
  better.add(reading(space, {{narrow(0.9)}, {narrow(0.5)}}, 0));
  better.add(reading(TokenCells(), {{narrow(0.9)}}, 0));
  ASSERT_EQ(better.targets().size(), 1U);
  EXPECT_EQ(better.targets()[0].looked_at.size(), 1U);
}

TEST(PredictionGains, ComparesWhatBothEvaluationsRead) {
  TargetLosses other;
  other.add(better_segment_of(0, 1), {2.0});
  PredictionGains better(other, 5, 0.05);
  better.begin(better_segment_of(0, 3), {1.0, 1.0, 1.0});
  EXPECT_EQ(better.summary().targets, 1);
  TargetLosses another;
  another.add(better_segment_of(5, 3), {2.0, 2.0, 2.0});
  PredictionGains differs(another, 5, 0.05);
  EXPECT_THAT(error_of([&] {
                differs.begin(better_segment_of(0, 3), {1.0, 1.0, 1.0});
              }),
              HasSubstr("2: lane 0, token 0: the two evaluations read different texts: expected id "
                        "0, got id 5; compare runs with the same data"));
  const TargetLosses nothing;
  PredictionGains lanes(nothing, 5, 0.05);
  EXPECT_THAT(error_of([&] {
                lanes.begin(better_segment_of(0, 3), {1.0, 1.0, 1.0});
              }),
              HasSubstr("equally many lanes, got 1 and 0"));
}

}  // namespace
}  // namespace mneme::analyze
