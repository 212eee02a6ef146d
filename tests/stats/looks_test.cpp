#include "host/stats/looks.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "host/base/error.hpp"
#include "host/base/random.hpp"
#include "host/stats/distributions.hpp"

namespace mneme::stats {
namespace {

using ::testing::HasSubstr;

// Share of experiments of `most` normal seeds without a difference in which the t test of the first
// n seeds rejects at the plan's level of some look.
double share_rejected(const LookPlan& plan, double level, int experiments, std::uint64_t seed) {
  std::vector<double> critical(plan.max_seeds() + 1);
  for (std::size_t n = plan.first_look(); n <= plan.max_seeds(); ++n) {
    critical[n] = t_quantile(1 - plan.nominal_level(n, level) / 2, static_cast<double>(n) - 1);
  }
  Random random(seed, {"looks"});
  int rejected = 0;
  for (int i = 0; i < experiments; ++i) {
    std::vector<double> values;
    bool is_rejected = false;
    while (values.size() < plan.max_seeds()) {
      values.push_back(random.normal());
      const std::size_t n = values.size();
      if (n < plan.first_look()) continue;
      double mean = 0;
      for (const double value : values) mean += value / static_cast<double>(n);
      double squares = 0;
      for (const double value : values) squares += (value - mean) * (value - mean);
      const double error = std::sqrt(squares / static_cast<double>(n - 1) / static_cast<double>(n));
      is_rejected = is_rejected || std::abs(mean) > critical[n] * error;
    }
    rejected += is_rejected ? 1 : 0;
  }
  return static_cast<double>(rejected) / experiments;
}

// Reference: drawn numbers and their t statistics.
TEST(Looks, AllTogetherHaveTheLevel) {
  constexpr int kExperiments = 40'000;
  constexpr std::uint64_t kSeed = 20261129;
  for (const std::size_t most : {4, 5, 12, 20}) {
    for (const double level : {0.05, 0.3}) {
      const double error = std::sqrt(level * (1 - level) / kExperiments);
      EXPECT_NEAR(share_rejected(LookPlan(most), level, kExperiments, kSeed), level, 4 * error)
          << most;
    }
  }
}

TEST(Looks, NominalLevelsRiseWithTheSquareOfTheSeeds) {
  const LookPlan plan(12);
  EXPECT_EQ(plan.first_look(), 3u);
  const double last = plan.nominal_level(12, 0.05);
  EXPECT_LT(last, 0.05);
  EXPECT_GT(last, 0.02);
  for (std::size_t n = 3; n < 12; ++n) {
    const double share = static_cast<double>(n) / 12;
    EXPECT_NEAR(plan.nominal_level(n, 0.05), last * share * share, 1e-12) << n;
  }
  EXPECT_EQ(LookPlan(13).first_look(), 4u);
  EXPECT_EQ(LookPlan(50).first_look(), 13u);
}

TEST(Looks, OneLookIsTheTestItself) {
  const LookPlan plan(3);
  for (const double p : {1e-4, 0.004, 0.05, 0.7, 1.0}) {
    EXPECT_NEAR(plan.repeated_p(3, p), p, 1e-3 * p);
    if (p == 1) continue;
    EXPECT_NEAR(plan.nominal_level(3, p), p, 1e-3 * p);
  }
}

TEST(Looks, RepeatedPIsTheLevelThatJustRejects) {
  const LookPlan plan(12);
  for (std::size_t n = 3; n <= 12; ++n) {
    for (const double level : {0.001, 0.05 / 3, 0.05, 0.4}) {
      const double p = plan.nominal_level(n, level);
      EXPECT_NEAR(plan.repeated_p(n, p), level, 1e-9) << n;
      EXPECT_LT(plan.repeated_p(n, 0.99 * p), level) << n;
      EXPECT_NEAR(repeated_one_sided_p(plan, n, p / 2), level / 2, 1e-9) << n;
    }
    double before = 0;
    for (double p = 1e-9; p <= 1; p *= 1.7) {
      const double repeated = plan.repeated_p(n, p);
      EXPECT_GT(repeated, before) << n << ' ' << p;
      EXPECT_GE(repeated, p) << n;
      before = repeated < 1 ? repeated : 0;
    }
    EXPECT_EQ(plan.repeated_p(n, 1), 1) << n;
  }
  EXPECT_EQ(repeated_one_sided_p(plan, 5, 0.8), 0.8);
}

// Reference: compare_paired at the look's level.
TEST(Looks, CompareAtALookWidensTheInterval) {
  Random random(5, {"looks"});
  PairedDifferences differences;
  differences.targets.assign(40, 10);
  for (int s = 0; s < 4; ++s) {
    std::vector<double>& row = differences.sums.emplace_back();
    for (int j = 0; j < 40; ++j) row.push_back(10 * (-0.05 + 0.03 * random.normal()));
  }
  const LookPlan plan(12);
  const PairedResult at_look = compare_at_look(differences, plan);
  const PairedResult plain = compare_paired(differences);
  const PairedResult narrow =
      compare_paired(differences, {.level = 1 - plan.nominal_level(4, 1 - 0.95)});
  EXPECT_EQ(at_look.low, narrow.low);
  EXPECT_EQ(at_look.high, narrow.high);
  EXPECT_LT(at_look.low, plain.low);
  EXPECT_GT(at_look.high, plain.high);
  EXPECT_EQ(at_look.p, plan.repeated_p(4, plain.p));
  EXPECT_GT(at_look.p, plain.p);
  EXPECT_GT(at_look.smallest_detectable, plain.smallest_detectable);
}

std::string looks_refusal(std::size_t most, std::size_t seeds) {
  try {
    static_cast<void>(LookPlan(most).repeated_p(seeds, 0.01));
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    return error.what();
  }
  return "no error";
}

TEST(Looks, RefusesNumbersOfSeedsWithoutALook) {
  EXPECT_THAT(looks_refusal(2, 2), HasSubstr("expected 3 to 50, got 2; the first look is at 3 "
                                             "seeds"));
  EXPECT_THAT(looks_refusal(51, 20), HasSubstr("expected 3 to 50, got 51"));
  EXPECT_THAT(looks_refusal(12, 2), HasSubstr("no look: expected 3 to 12, got 2"));
  EXPECT_THAT(looks_refusal(12, 13), HasSubstr("no look: expected 3 to 12, got 13"));
}

}  // namespace
}  // namespace mneme::stats
