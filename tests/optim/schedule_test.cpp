#include "host/optim/schedule.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "host/base/error.hpp"
#include "tests/base/temporary_folder.hpp"

namespace mneme::train {
namespace {

config::TrainConfig settings(config::Schedule schedule, std::int64_t warmup, double lr_min) {
  config::TrainConfig train;
  train.lr = 2.0;
  train.lr_min = lr_min;
  train.schedule = schedule;
  train.warmup = warmup;
  return train;
}

TEST(LearningRate, FollowsTheCosineOverAllSteps) {
  const optim::LearningRate rate(settings(config::Schedule::kCosine, 0, 0.0), 60);
  EXPECT_DOUBLE_EQ(rate.factor(0), 1.0);
  EXPECT_DOUBLE_EQ(rate.factor(30), 0.5);
  EXPECT_DOUBLE_EQ(rate.factor(7), 0.5 * (1.0 + std::cos(std::numbers::pi * 7.0 / 60.0)));
  EXPECT_NEAR(rate.factor(60), 0.0, 1e-15);
  EXPECT_NEAR(rate.factor(1000), 0.0, 1e-15);
}

TEST(LearningRate, GrowsFromZeroDuringWarmUpAndThenJoinsTheCosine) {
  const optim::LearningRate rate(settings(config::Schedule::kCosine, 10, 0.0), 100);
  EXPECT_DOUBLE_EQ(rate.factor(0), 0.0);
  EXPECT_DOUBLE_EQ(rate.factor(3), 0.3);
  EXPECT_DOUBLE_EQ(rate.factor(10), 0.5 * (1.0 + std::cos(std::numbers::pi * 0.1)));
}

TEST(LearningRate, EndsAtTheLeastRate) {
  const optim::LearningRate rate(settings(config::Schedule::kCosine, 0, 0.5), 10);
  EXPECT_DOUBLE_EQ(rate.factor(0), 1.0);
  EXPECT_DOUBLE_EQ(rate.factor(5), 0.25 + 0.75 * 0.5);
  EXPECT_DOUBLE_EQ(rate.factor(10), 0.25);
}

TEST(LearningRate, StaysAfterWarmUpWhenConstant) {
  const optim::LearningRate rate(settings(config::Schedule::kConstant, 4, 0.0), 10);
  EXPECT_DOUBLE_EQ(rate.factor(2), 0.5);
  EXPECT_DOUBLE_EQ(rate.factor(4), 1.0);
  EXPECT_DOUBLE_EQ(rate.factor(9), 1.0);
}

TEST(LearningRate, FallsLinearlyFromTheWarmUpsEndToTheLeastRate) {
  const optim::LearningRate rate(settings(config::Schedule::kLinear, 10, 0.5), 50);
  EXPECT_DOUBLE_EQ(rate.factor(5), 0.5);
  EXPECT_DOUBLE_EQ(rate.factor(10), 1.0);
  EXPECT_DOUBLE_EQ(rate.factor(30), 0.25 + 0.75 * 0.5);
  EXPECT_DOUBLE_EQ(rate.factor(50), 0.25);
  EXPECT_DOUBLE_EQ(rate.factor(60), 0.25);
  const optim::LearningRate all_warmup(settings(config::Schedule::kLinear, 8, 0.0), 8);
  EXPECT_DOUBLE_EQ(all_warmup.factor(7), 7.0 / 8.0);
  EXPECT_DOUBLE_EQ(all_warmup.factor(8), 1.0);
}

TEST(LearningRate, FallsWithTheInverseSquareRoot) {
  const optim::LearningRate rate(settings(config::Schedule::kInverseSqrt, 4, 0.2), 10000);
  EXPECT_DOUBLE_EQ(rate.factor(1), 0.25);
  EXPECT_DOUBLE_EQ(rate.factor(4), 1.0);
  EXPECT_DOUBLE_EQ(rate.factor(16), 0.5);
  EXPECT_DOUBLE_EQ(rate.factor(64), 0.25);
  EXPECT_DOUBLE_EQ(rate.factor(10000), 0.1);  // lr_min / lr
}

TEST(LearningRate, IsStableBetweenWarmUpAndDecay) {
  config::TrainConfig train = settings(config::Schedule::kWsd, 10, 0.5);
  train.decay_share = 0.4;
  const optim::LearningRate linear(train, 100);
  for (const std::int64_t step : {10, 40, 60}) EXPECT_EQ(linear.factor(step), 1.0) << step;
  EXPECT_DOUBLE_EQ(linear.factor(5), 0.5);
  EXPECT_DOUBLE_EQ(linear.factor(70), 0.25 + 0.75 * 0.75);
  EXPECT_DOUBLE_EQ(linear.factor(100), 0.25);
  EXPECT_DOUBLE_EQ(linear.factor(1000), 0.25);
  train.schedule = config::Schedule::kWsdSqrt;
  const optim::LearningRate root(train, 100);
  for (const std::int64_t step : {10, 40, 60}) EXPECT_EQ(root.factor(step), 1.0) << step;
  EXPECT_DOUBLE_EQ(root.factor(70), 0.25 + 0.75 * 0.5);
  EXPECT_DOUBLE_EQ(root.factor(100), 0.25);
}

TEST(LearningRate, DecaysInAtLeastOneStep) {
  config::TrainConfig train = settings(config::Schedule::kWsd, 0, 0.0);
  train.decay_share = 0.001;
  EXPECT_EQ(train.decay_steps(20), 1);
  const optim::LearningRate rate(train, 20);
  EXPECT_EQ(rate.factor(19), 1.0);
  EXPECT_EQ(rate.factor(20), 0.0);
  EXPECT_EQ(settings(config::Schedule::kCosine, 0, 0.0).decay_steps(20), 0);
}

// Counts of an epoch; nothing else is asked of it.
class CountedStream final : public data::Stream {
 public:
  CountedStream(std::int64_t segments, std::int64_t with_target)
      : segments_(segments), with_target_(with_target) {}
  bool next(data::TokenSegment&) override { return false; }
  std::vector<std::int64_t> position() const override { return {}; }
  void seek(const std::vector<std::int64_t>&) override {}
  std::int64_t segments_per_epoch() const override { return segments_; }
  std::int64_t targets_per_epoch() const override { return with_target_; }
  std::int64_t target_segments_per_epoch() const override { return with_target_; }

 private:
  std::int64_t segments_, with_target_;
};

TEST(CountSteps, RoundsEpochsUpToWholeSteps) {
  config::TrainConfig train;
  train.epochs = 3;
  EXPECT_EQ(optim::count_steps(train, CountedStream(4, 4)), 12);
  train.accumulate = 5;
  EXPECT_EQ(optim::count_steps(train, CountedStream(4, 4)), 3);
  train.bptt_segments = 2;
  EXPECT_EQ(optim::count_steps(train, CountedStream(4, 4)), 2);
  train.epochs = 0;
  train.steps = 77;
  EXPECT_EQ(optim::count_steps(train, CountedStream(4, 4)), 77);
}

TEST(CountSteps, RefusesADecayThatBeginsWithinTheWarmUp) {
  config::TrainConfig train;
  train.epochs = 3;
  train.schedule = config::Schedule::kWsd;
  train.decay_share = 0.25;
  train.warmup = 9;
  EXPECT_EQ(optim::count_steps(train, CountedStream(4, 4)), 12);
  train.warmup = 10;
  EXPECT_THAT(
      test::error_of([&] { static_cast<void>(optim::count_steps(train, CountedStream(4, 4))); }),
      testing::HasSubstr(
          "train.decay_share: the decay begins within the warm-up: expected at most 2 "
          "of 12 steps, got 3"));
}

TEST(CountSteps, CountsAnswersWhereOnlyTheyHaveTargets) {
  config::TrainConfig train;
  train.epochs = 2;
  EXPECT_EQ(optim::count_steps(train, CountedStream(12, 3)), 6);
  train.bptt_segments = 4;  // reaches back from an answer; still one answer a pass
  EXPECT_EQ(optim::count_steps(train, CountedStream(12, 3)), 6);
}

// The Compressive Transformer: one update every 4 segments after some steps.
TEST(CountSteps, FollowsTheUpdatePeriod) {
  config::TrainConfig train;
  train.epochs = 1;
  train.accumulate_from = {{.step = 10, .segments = 4}, {.step = 12, .segments = 2}};
  EXPECT_EQ(optim::accumulation(train, 9), 1);
  EXPECT_EQ(optim::accumulation(train, 10), 4);
  EXPECT_EQ(optim::accumulation(train, 11), 4);
  EXPECT_EQ(optim::accumulation(train, 12), 2);
  EXPECT_EQ(optim::count_steps(train, CountedStream(9, 9)), 9);
  EXPECT_EQ(optim::count_steps(train, CountedStream(10, 10)), 10);
  EXPECT_EQ(optim::count_steps(train, CountedStream(11, 11)), 11);
  EXPECT_EQ(optim::count_steps(train, CountedStream(18, 18)), 12);
  EXPECT_EQ(optim::count_steps(train, CountedStream(19, 19)), 13);
  EXPECT_EQ(optim::count_steps(train, CountedStream(22, 22)), 14);
}

TEST(CountSteps, RefusesEpochsOfDataWithoutEnd) {
  config::TrainConfig train;
  train.epochs = 1;
  EXPECT_THROW(static_cast<void>(optim::count_steps(train, CountedStream(0, 0))), Error);
}

}  // namespace
}  // namespace mneme::train
