#include "host/stats/distributions.hpp"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace mneme::stats
