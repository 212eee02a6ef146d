#include "host/stats/distributions.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/stats/golden.hpp"

namespace mneme::stats {
namespace {

void expect_relative(double got, double expected, double tolerance) {
  EXPECT_NEAR(got, expected, tolerance * std::max(1.0, std::abs(expected)));
}

TEST(Distributions, QuantilesAreScipys) {
  const nlohmann::json& quantiles = golden("quantiles");
  ASSERT_GE(quantiles.at("t").size(), 20u);
  for (const auto& row : quantiles.at("normal")) {
    expect_relative(normal_quantile(row[0]), row[1], 1e-10);
    expect_relative(normal_probability(row[1]), row[0], 1e-10);
  }
  for (const auto& row : quantiles.at("t")) {
    expect_relative(t_quantile(row[0], row[1]), row[2], 1e-10);
  }
  for (const auto& row : quantiles.at("chi_squared")) {
    expect_relative(chi_squared_quantile(row[0], row[1]), row[2], 1e-10);
  }
}

TEST(Distributions, PowersAreScipys) {
  const nlohmann::json& powers = golden("powers");
  ASSERT_GE(powers.at("power").size(), 10u);
  for (const auto& row : powers.at("power")) {
    expect_relative(t_power(row[0], row[1], row[2]), row[3], 1e-10);
  }
  for (const auto& row : powers.at("shift")) {
    expect_relative(t_shift_for_power(row[0], row[1], row[2]), row[3], 1e-9);
  }
}

TEST(Distributions, FarPowersContinueTheNearOnes) {
  for (const double degrees : {5.0, 31.0, 200.0}) {
    const double near = t_shift_for_power(0.8, degrees, 9.99e3) / 9.99e3;
    const double far = t_shift_for_power(0.8, degrees, 1.001e4) / 1.001e4;
    EXPECT_NEAR(near, far, 1e-6 * far);
    EXPECT_TRUE(std::isfinite(t_shift_for_power(0.8, degrees, 1e15)));
  }
}

}  // namespace
}  // namespace mneme::stats
