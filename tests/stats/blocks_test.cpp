#include "host/stats/blocks.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "host/base/error.hpp"
#include "host/base/random.hpp"
#include "tests/stats/golden.hpp"

namespace mneme::stats {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Lanes of a stationary autoregression x(t) = coefficient x(t - 1) + noise.
std::vector<std::vector<double>> autoregression(std::size_t lanes, std::size_t targets,
                                                double coefficient, std::uint64_t seed) {
  Random random(seed, {"blocks test"});
  std::vector<std::vector<double>> series(lanes);
  for (auto& lane : series) {
    double value = random.normal() / std::sqrt(1 - coefficient * coefficient);
    for (std::size_t i = 0; i < targets; ++i) {
      lane.push_back(value);
      value = coefficient * value + random.normal();
    }
  }
  return series;
}

std::string blocks_refusal(const std::vector<std::vector<double>>& lanes) {
  try {
    (void)choose_blocks(lanes);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Blocks, CutEveryTargetOnce) {
  const std::vector<std::size_t> lanes = {10, 3, 12, 1};
  for (const std::size_t length : {1, 2, 3, 4, 5, 8, 100}) {
    std::vector<std::size_t> next(lanes.size(), 0);
    for (const Block& block : cut_blocks(lanes, length)) {
      EXPECT_EQ(block.begin, next[block.lane]);
      EXPECT_GT(block.end, block.begin);
      EXPECT_LT(2 * (block.end - block.begin), 3 * length + (length == 1 ? 1 : 0));
      next[block.lane] = block.end;
    }
    EXPECT_EQ(next, lanes);
  }
  // 10 = 4 + 4 + 2, whose rest of 2 is half a block; 9 = 4 + 5.
  EXPECT_EQ(cut_blocks(std::vector<std::size_t>{10}, 4).size(), 3u);
  EXPECT_EQ(cut_blocks(std::vector<std::size_t>{9}, 4).size(), 2u);
}

TEST(Blocks, SumsAndTargetsAreThoseOfTheLanes) {
  const std::vector<std::vector<double>> lanes = {{1, 2, 3, 4, 5}, {10, 20, 30}};
  const std::vector<Block> blocks = cut_blocks(std::vector<std::size_t>{5, 3}, 2);
  EXPECT_THAT(block_sums(lanes, blocks), ElementsAre(3, 7, 5, 30, 30));
  EXPECT_THAT(block_targets(blocks), ElementsAre(2, 2, 1, 2, 1));
}

TEST(Blocks, AutocorrelationIsNumpys) {
  const auto lanes = golden("blocks").at("lanes").get<std::vector<std::vector<double>>>();
  ASSERT_GE(golden("blocks").at("rows").size(), 4u);
  for (const auto& row : golden("blocks").at("rows")) {
    const std::size_t length = row.at("length");
    const std::vector<Block> blocks =
        cut_blocks(std::vector<std::size_t>{lanes[0].size(), lanes[1].size()}, length);
    std::vector<double> means = block_sums(lanes, blocks);
    for (double& value : means) value /= static_cast<double>(length);
    const LagOne lag = lag_one(means, blocks);
    EXPECT_EQ(lag.pairs, row.at("pairs").get<std::size_t>());
    EXPECT_NEAR(lag.autocorrelation, row.at("autocorrelation").get<double>(), 1e-10);
  }
}

TEST(Blocks, AreLongerThanTheCorrelation) {
  // The correlation time of an autoregression is (1 + a) / (1 - a): 1, 9, 39.
  std::size_t previous = 0;
  for (const double coefficient : {0.0, 0.8, 0.95}) {
    const Blocks blocks = choose_blocks(autoregression(4, 16384, coefficient, 11));
    EXPECT_TRUE(blocks.is_uncorrelated);
    EXPECT_THAT(blocks.warnings, IsEmpty());
    EXPECT_GT(static_cast<double>(blocks.length), (1 + coefficient) / (1 - coefficient));
    EXPECT_LT(std::abs(blocks.autocorrelation), 2 * blocks.band);
    EXPECT_GT(blocks.length, previous);
    previous = blocks.length;
  }
}

TEST(Blocks, StaysShortWithoutCorrelation) {
  EXPECT_LE(choose_blocks(autoregression(4, 4096, 0, 12)).length, 4u);
}

TEST(Blocks, WarnsWhereNoLengthIsEnough) {
  // A slow drift: every block resembles its neighbours.
  std::vector<double> drift(2000);
  std::iota(drift.begin(), drift.end(), 0.0);
  const Blocks blocks = choose_blocks(std::vector<std::vector<double>>{drift});
  EXPECT_FALSE(blocks.is_uncorrelated);
  EXPECT_GE(blocks.blocks.size(), 10u);
  EXPECT_LT(blocks.blocks.size(), 20u);
  EXPECT_THAT(blocks.warnings, ElementsAre(HasSubstr("correlated over more than"),
                                           HasSubstr("blocks of about 128 targets")));
}

TEST(Blocks, WarnsOfFewBlocks) {
  const Blocks blocks = choose_blocks(autoregression(1, 15, 0, 13));
  EXPECT_EQ(std::accumulate(blocks.blocks.begin(), blocks.blocks.end(), std::size_t{0},
                            [](std::size_t n, const Block& b) { return n + b.end - b.begin; }),
            15u);
  EXPECT_THAT(blocks.warnings, ElementsAre(HasSubstr("only 15 blocks of 1 targets")));
}

TEST(Blocks, TakesEqualDifferences) {
  const Blocks blocks = choose_blocks(std::vector<std::vector<double>>{std::vector<double>(64, 0)});
  EXPECT_EQ(blocks.autocorrelation, 0);
  EXPECT_TRUE(blocks.is_uncorrelated);
}

TEST(Blocks, RefusesBadInput) {
  EXPECT_THAT(blocks_refusal({}), HasSubstr("at least one lane"));
  EXPECT_THAT(blocks_refusal({{1}, {}}), HasSubstr("lane 1: nothing to cut"));
  EXPECT_THAT(blocks_refusal({{1, std::numeric_limits<double>::quiet_NaN()}}),
              HasSubstr("lane 0, target 1: difference of losses: expected a finite number"));
  EXPECT_THROW((void)cut_blocks(std::vector<std::size_t>{4}, 0), Error);
}

}  // namespace
}  // namespace mneme::stats
