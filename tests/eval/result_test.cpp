#include "host/eval/result.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace mneme::eval {
namespace {

TEST(Score, AveragesOverTargets) {
  Score score{.tokens = 3, .nll = 6.0, .correct = 1};
  score.add({.tokens = 1, .nll = 2.0, .correct = 1});
  EXPECT_DOUBLE_EQ(score.loss(), 2.0);
  EXPECT_DOUBLE_EQ(score.perplexity(), std::exp(2.0));
  EXPECT_DOUBLE_EQ(score.accuracy(), 0.5);
  EXPECT_EQ(Score{}.loss(), 0.0);
  EXPECT_EQ(Score{}.accuracy(), 0.0);
}

TEST(Result, WritesEveryNumber) {
  Result result;
  result.total = {.tokens = 10, .nll = 20.0, .correct = 4};
  result.by_source.emplace();
  (*result.by_source)[2] = {.tokens = 4, .nll = 4.0, .correct = 3};
  result.bits_per_character = 1.5;
  result.metrics["0.test.usage"] = 0.25;
  result.seconds = 2.0;
  result.state_bytes = 64;
  EXPECT_DOUBLE_EQ(result.tokens_per_second(), 5.0);
  EXPECT_DOUBLE_EQ(result.outside_accuracy().value(), 0.75);
  const Json json = to_json(result);
  EXPECT_EQ(json.at("loss"), 2.0);
  EXPECT_EQ(json.at("accuracy"), 0.4);
  EXPECT_EQ(json.at("bits_per_character"), 1.5);
  EXPECT_EQ(json.at("by_source").at("outside").at("accuracy"), 0.75);
  EXPECT_EQ(json.at("by_source").at("none").at("tokens"), 0);
  EXPECT_EQ(json.at("metrics").at("0.test.usage"), 0.25);
  EXPECT_EQ(json.at("state_bytes"), 64);
}

TEST(Result, LeavesOutWhatIsNotKnown) {
  Result result;
  result.total = {.tokens = 1, .nll = std::numeric_limits<double>::infinity(), .correct = 0};
  const Json json = to_json(result);
  EXPECT_TRUE(json.at("loss").is_null());
  EXPECT_FALSE(json.contains("by_source"));
  EXPECT_FALSE(json.contains("bits_per_character"));
  EXPECT_FALSE(result.outside_accuracy().has_value());
  EXPECT_EQ(result.tokens_per_second(), 0.0);
}

}  // namespace
}  // namespace mneme::eval
