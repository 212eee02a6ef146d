#include "host/stats/holm.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "host/base/error.hpp"
#include "tests/stats/golden.hpp"

namespace mneme::stats {
namespace {

TEST(Holm, AdjustsAsStatsmodelsDoes) {
  ASSERT_GE(golden("holm").size(), 5u);
  for (const auto& family : golden("holm")) {
    const std::vector<double> adjusted = holm(family.at("p").get<std::vector<double>>());
    const auto expected = family.at("adjusted").get<std::vector<double>>();
    ASSERT_EQ(adjusted.size(), expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(adjusted[i], expected[i], 1e-12);
  }
}

TEST(Holm, LeavesOneOrNoValue) {
  EXPECT_TRUE(holm(std::vector<double>{}).empty());
  EXPECT_EQ(holm(std::vector<double>{0.03}), std::vector<double>{0.03});
}

TEST(Holm, RefusesWhatIsNoProbability) {
  for (const double bad : {-0.1, 1.5, std::numeric_limits<double>::quiet_NaN()}) {
    try {
      (void)holm(std::vector<double>{0.5, bad});
      FAIL() << bad;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), testing::StartsWith("p value 1: Holm's correction: expected"));
    }
  }
}

}  // namespace
}  // namespace mneme::stats
