#include "host/stats/aggregates.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "host/base/error.hpp"
#include "host/base/random.hpp"
#include "tests/stats/golden.hpp"

namespace mneme::stats {
namespace {

using testing::HasSubstr;

constexpr double kExact = 1e-12;
// Of an end of an interval: the error of 20,000 draws there and 5,000 here.
constexpr double kDrawn = 0.01;

using Ends = std::vector<double>;

void expect_golden(const Aggregate& ours, double value, const Ends& interval) {
  EXPECT_NEAR(ours.value, value, kExact);
  EXPECT_NEAR(ours.low, interval.at(0), kDrawn);
  EXPECT_NEAR(ours.high, interval.at(1), kDrawn);
}

TEST(Aggregates, AreThoseOfRliable) {
  const auto thresholds = golden("aggregates").at("thresholds").get<std::vector<double>>();
  const auto& memories = golden("aggregates").at("memories");
  ASSERT_EQ(memories.size(), 3u);
  const auto first = memories.at(0).at("scores").get<TaskScores>();
  for (const auto& row : memories) {
    const auto scores = row.at("scores").get<TaskScores>();
    const Aggregates ours = aggregate_scores(scores, thresholds);
    const auto numbers = row.at("numbers").get<std::vector<double>>();
    const auto intervals = row.at("intervals").get<std::vector<Ends>>();
    expect_golden(ours.interquartile_mean, numbers.at(0), intervals.at(0));
    expect_golden(ours.mean, numbers.at(1), intervals.at(1));
    expect_golden(ours.median, numbers.at(2), intervals.at(2));
    expect_golden(ours.optimality_gap, numbers.at(3), intervals.at(3));
    ASSERT_EQ(ours.profile.size(), thresholds.size());
    for (std::size_t i = 0; i < thresholds.size(); ++i) {
      EXPECT_NEAR(ours.profile[i].value, row.at("profile").at(i).get<double>(), kExact);
      // Shares are whole thirtieths: a quantile may lie on either side of a step.
      const auto band = row.at("bands").at(i).get<Ends>();
      EXPECT_NEAR(ours.profile[i].low, band.at(0), 1.01 / 30);
      EXPECT_NEAR(ours.profile[i].high, band.at(1), 1.01 / 30);
    }
    expect_golden(probability_of_improvement(scores, first), row.at("improvement").get<double>(),
                  row.at("improvement_interval").get<Ends>());
  }
}

// Of each side the quarter is rounded down: of 2, 3, 4, 5 and 7 scores 0, 0, 1, 1, 1 are left out.
TEST(Aggregates, TrimWholeScores) {
  const auto trimmed = [](const TaskScores& scores) {
    return aggregate_scores(scores, {}, {.draws = 1}).interquartile_mean.value;
  };
  EXPECT_NEAR(trimmed({{0, 1}}), 0.5, kExact);
  EXPECT_NEAR(trimmed({{0, 0.25, 1}}), 1.25 / 3, kExact);
  EXPECT_NEAR(trimmed({{0, 0.25}, {0.5, 10}}), 0.375, kExact);
  EXPECT_NEAR(trimmed({{0, 10, 0.25, 0.5, 0.5}}), 1.25 / 3, kExact);
  EXPECT_NEAR(trimmed({{-9, 10, 0.1, 0.2, 0.3, 0.4, 0.5}}), 0.3, kExact);
}

TEST(Aggregates, OfPerfectScoresHaveNoGap) {
  const std::vector<double> thresholds = {0, 0.5, 1};
  const Aggregates ours = aggregate_scores({{1, 1}, {1, 1}}, thresholds, {.draws = 10});
  EXPECT_EQ(ours.optimality_gap.high, 0.0);
  EXPECT_EQ(ours.interquartile_mean.low, 1.0);
  EXPECT_EQ(ours.profile[1].low, 1.0);
  EXPECT_EQ(ours.profile[2].high, 0.0) << "no score is above 1";
}

// Runs are drawn within their task: where runs of a task agree, nothing varies.
TEST(Aggregates, KeepTheTasksInEveryResample) {
  const Aggregates ours = aggregate_scores({{0.25, 0.25}, {0.75, 0.75}}, {}, {.draws = 100});
  EXPECT_EQ(ours.mean.low, 0.5);
  EXPECT_EQ(ours.mean.high, 0.5);
}

TEST(Aggregates, AreTheSameForTheSameSeed) {
  const TaskScores scores = {{0.1, 0.5, 0.2}, {0.9, 0.4, 0.3}};
  const auto low = [&](std::uint64_t seed) {
    return aggregate_scores(scores, {}, {.draws = 50, .seed = seed}).mean.low;
  };
  EXPECT_EQ(low(1), low(1));
  EXPECT_NE(low(1), low(2));
}

// Ten seeds of five tasks. docs/statistics.md has the shares of fewer seeds.
TEST(Aggregates, IntervalsHoldTheTruth) {
  Random random(3, {"aggregates test"});
  int held = 0;
  constexpr int kExperiments = 200;
  for (int i = 0; i < kExperiments; ++i) {
    TaskScores scores(5);
    for (auto& runs : scores) {
      for (int run = 0; run < 10; ++run) runs.push_back(0.5 + 0.1 * random.normal());
    }
    const Aggregate ours = aggregate_scores(scores, {}, {.draws = 100}).interquartile_mean;
    held += ours.low <= 0.5 && 0.5 <= ours.high ? 1 : 0;
  }
  EXPECT_GE(held, 0.88 * kExperiments);
  EXPECT_LE(held, 0.98 * kExperiments);
}

template <typename Work>
std::string aggregates_refusal(const Work& work) {
  try {
    static_cast<void>(work());
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Aggregates, RefuseBadScores) {
  const auto refusal = [](const TaskScores& scores, const AggregateOptions& options = {}) {
    return aggregates_refusal([&] { return aggregate_scores(scores, {}, options); });
  };
  EXPECT_THAT(refusal({}), HasSubstr("aggregate over tasks: expected a score, got none"));
  EXPECT_THAT(refusal({{}}), HasSubstr("expected a score, got none"));
  EXPECT_THAT(refusal({{1, 1}, {1}}),
              HasSubstr("task number 2: aggregate over tasks: expected 2 runs, as of the first "
                        "one, got 1"));
  EXPECT_THAT(refusal({{1, 1}, {1, std::numeric_limits<double>::quiet_NaN()}}),
              HasSubstr("task number 2, run number 2: aggregate over tasks: expected a finite "
                        "number, got nan"));
  EXPECT_THAT(refusal({{1}}, {.level = 1}), HasSubstr("0 < level < 1"));
  EXPECT_THAT(refusal({{1}}, {.draws = 0}), HasSubstr("draws of a bootstrap: expected at least 1"));
  EXPECT_THAT(aggregates_refusal([] {
                return probability_of_improvement({{1}}, {{1}, {1}});
              }),
              HasSubstr("probability of improvement: expected 1 tasks of both, got 2"));
}

}  // namespace
}  // namespace mneme::stats
