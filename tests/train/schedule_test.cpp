#include "host/train/schedule.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

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
  const LearningRate rate(settings(config::Schedule::kCosine, 0, 0.0), 60);
  EXPECT_DOUBLE_EQ(rate.factor(0), 1.0);
  EXPECT_DOUBLE_EQ(rate.factor(30), 0.5);
  EXPECT_DOUBLE_EQ(rate.factor(7), 0.5 * (1.0 + std::cos(std::numbers::pi * 7.0 / 60.0)));
  EXPECT_NEAR(rate.factor(60), 0.0, 1e-15);
  EXPECT_NEAR(rate.factor(1000), 0.0, 1e-15);
}

TEST(LearningRate, GrowsFromZeroDuringWarmUpAndThenJoinsTheCosine) {
  const LearningRate rate(settings(config::Schedule::kCosine, 10, 0.0), 100);
  EXPECT_DOUBLE_EQ(rate.factor(0), 0.0);
  EXPECT_DOUBLE_EQ(rate.factor(3), 0.3);
  EXPECT_DOUBLE_EQ(rate.factor(10), 0.5 * (1.0 + std::cos(std::numbers::pi * 0.1)));
}

TEST(LearningRate, EndsAtTheLeastRate) {
  const LearningRate rate(settings(config::Schedule::kCosine, 0, 0.5), 10);
  EXPECT_DOUBLE_EQ(rate.factor(0), 1.0);
  EXPECT_DOUBLE_EQ(rate.factor(5), 0.25 + 0.75 * 0.5);
  EXPECT_DOUBLE_EQ(rate.factor(10), 0.25);
}

TEST(LearningRate, StaysAfterWarmUpWhenConstant) {
  const LearningRate rate(settings(config::Schedule::kConstant, 4, 0.0), 10);
  EXPECT_DOUBLE_EQ(rate.factor(2), 0.5);
  EXPECT_DOUBLE_EQ(rate.factor(4), 1.0);
  EXPECT_DOUBLE_EQ(rate.factor(9), 1.0);
}

}  // namespace
}  // namespace mneme::train
