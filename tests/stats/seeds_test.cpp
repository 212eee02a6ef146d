#include "host/stats/seeds.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "host/base/error.hpp"

namespace mneme::stats {
namespace {

TEST(Seeds, GivesTheTInterval) {
  const SeedSummary summary = summarise_seeds(std::vector<double>{1, 2, 6});
  EXPECT_EQ(summary.count, 3u);
  EXPECT_DOUBLE_EQ(summary.mean, 3);
  EXPECT_NEAR(summary.deviation, std::sqrt(7.0), 1e-14);
  const double half = 4.302652729749462 * std::sqrt(7.0 / 3.0);  // t(0.975, 2)
  EXPECT_NEAR(summary.low, 3 - half, 1e-12);
  EXPECT_NEAR(summary.high, 3 + half, 1e-12);
}

TEST(Seeds, LeavesOutWhatFewSeedsCannotGive) {
  const SeedSummary one = summarise_seeds(std::vector<double>{5});
  EXPECT_EQ(one.mean, 5);
  EXPECT_TRUE(std::isnan(one.deviation) && std::isnan(one.low) && std::isnan(one.high));
  const SeedSummary none = summarise_seeds({});
  EXPECT_EQ(none.count, 0u);
  EXPECT_TRUE(std::isnan(none.mean));
}

TEST(Seeds, RefusesBadNumbers) {
  try {
    (void)summarise_seeds(std::vector<double>{1, std::numeric_limits<double>::infinity()});
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("value of seed number 2: mean over seeds"));
  }
  try {
    (void)summarise_seeds(std::vector<double>{1}, 1.0);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    EXPECT_THAT(error.what(), testing::HasSubstr("0 < level < 1"));
  }
}

}  // namespace
}  // namespace mneme::stats
