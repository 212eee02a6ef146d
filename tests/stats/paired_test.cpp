#include "host/stats/paired.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "host/base/error.hpp"
#include "host/base/random.hpp"
#include "host/stats/distributions.hpp"
#include "host/stats/resample.hpp"
#include "tests/stats/golden.hpp"

namespace mneme::stats {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

PairedDifferences of_golden(const nlohmann::json& row) {
  return {row.at("sums").get<std::vector<std::vector<double>>>(),
          row.at("targets").get<std::vector<double>>()};
}

// Units of different lengths whose differences have `mean`.
PairedDifferences random_differences(std::size_t seeds, std::size_t units, double mean,
                                     std::uint64_t seed) {
  Random random(seed, {"paired test"});
  PairedDifferences differences;
  for (std::size_t j = 0; j < units; ++j) {
    differences.targets.push_back(50.0 + static_cast<double>(random.below(200)));
  }
  for (std::size_t s = 0; s < seeds; ++s) {
    auto& row = differences.sums.emplace_back();
    for (const double n : differences.targets) row.push_back(n * (mean + 0.1 * random.normal()));
  }
  return differences;
}

std::string paired_refusal(const PairedDifferences& differences,
                           const PairedOptions& options = {}) {
  try {
    (void)compare_paired(differences, options);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Paired, MeanAndVariancesAreNumpys) {
  ASSERT_GE(golden("paired").size(), 5u);
  for (const auto& row : golden("paired")) {
    const PairedDifferences differences = of_golden(row);
    const PairedResult result = compare_paired(differences);
    EXPECT_NEAR(result.mean, row.at("mean").get<double>(), 1e-12);
    const auto variance = row.at("variance").get<std::vector<double>>();
    EXPECT_NEAR(result.variance.seeds / variance[1], variance[0] / variance[1], 1e-10);
    EXPECT_NEAR(result.variance.units / variance[1], 1, 1e-10);
    EXPECT_NEAR(result.variance.interaction / variance[1], variance[2] / variance[1], 1e-10);
  }
}

TEST(Paired, ExactPValuesAreScipys) {
  for (const auto& row : golden("paired")) {
    const PairedResult result = compare_paired(of_golden(row));
    EXPECT_TRUE(result.is_p_exact);
    EXPECT_NEAR(result.p, row.at("p").get<double>(), 1e-8);
  }
}

TEST(Paired, DrawnPValuesAgreeWithExactOnes) {
  PairedOptions options;
  options.exact_units = 0;
  options.sign_flip_draws = 100000;
  for (const auto& row : golden("paired")) {
    const PairedResult result = compare_paired(of_golden(row), options);
    EXPECT_FALSE(result.is_p_exact);
    const double p = row.at("p");
    // Five standard errors of a share, and the two counts that are added.
    EXPECT_NEAR(result.p, p, 5 * std::sqrt(p * (1 - p) / 100000) + 2e-5);
  }
}

TEST(Paired, BootstrapQuantilesAreNumpysWithinTheirMonteCarloError) {
  constexpr int kDraws = 200000;
  for (const auto& row : golden("paired")) {
    const PairedDifferences differences = of_golden(row);
    const Tails tails = bootstrap_tails(differences.sums, differences.targets, 0.025, kDraws, 7);
    const auto check = [](double got, const nlohmann::json& expected) {
      const double error = expected.at("error_of_one_draw");
      const double draws = expected.at("draws");
      EXPECT_NEAR(got, expected.at("quantile").get<double>(),
                  4 * error * std::sqrt(1 / draws + 1.0 / kDraws));
    };
    check(tails.lower, row.at("bootstrap")[0]);
    check(tails.upper, row.at("bootstrap")[1]);
  }
}

TEST(Paired, IntervalIsTheHalfWidthLengthenedByTheBootstrap) {
  for (const auto& row : golden("paired")) {
    const PairedDifferences differences = of_golden(row);
    const PairedResult result = compare_paired(differences);
    const double half = row.at("half_width");
    const double t = t_quantile(0.975, static_cast<double>(result.units) - 1);
    const auto expected = [&](double tail) {
      return half * (1 + (1 - result.seed_share) * std::max(0.0, tail / t - 1));
    };
    const double upper = row.at("bootstrap")[1].at("quantile");
    const double lower = row.at("bootstrap")[0].at("quantile");
    EXPECT_NEAR((result.mean - result.low) / expected(upper), 1, 0.06);
    EXPECT_NEAR((result.high - result.mean) / expected(-lower), 1, 0.06);
    EXPECT_GE(result.mean - result.low, half * (1 - 1e-10));
    EXPECT_GE(result.high - result.mean, half * (1 - 1e-10));
  }
}

TEST(Paired, EqualSeedsAndOptionsGiveEqualResults) {
  const PairedDifferences differences = random_differences(3, 40, 0.02, 1);
  const PairedResult a = compare_paired(differences);
  const PairedResult b = compare_paired(differences);
  EXPECT_EQ(a.low, b.low);
  EXPECT_EQ(a.high, b.high);
  EXPECT_EQ(a.p, b.p);
  PairedOptions other;
  other.seed = 2;
  EXPECT_NE(compare_paired(differences, other).p, a.p);
}

TEST(Paired, ChangesSignWithTheDifferences) {
  PairedDifferences differences = random_differences(1, 9, 0.05, 2);
  const PairedResult a = compare_paired(differences);
  for (double& value : differences.sums[0]) value = -value;
  const PairedResult b = compare_paired(differences);
  EXPECT_NEAR(a.mean, -b.mean, 1e-15);
  EXPECT_NEAR(a.low, -b.high, 1e-12);
  EXPECT_NEAR(a.high, -b.low, 1e-12);
  EXPECT_EQ(a.p, b.p);
  EXPECT_NEAR(a.effect_size, -b.effect_size, 1e-12);
}

TEST(Paired, ShowsALargeDifferenceAndNoneWhereThereIsNone) {
  const PairedResult lower = compare_paired(random_differences(3, 60, -0.1, 3));
  EXPECT_EQ(verdict(lower, lower.p), Verdict::kLower);
  EXPECT_LT(lower.high, 0);
  EXPECT_LT(lower.effect_size, -0.8);
  EXPECT_TRUE(lower.covers_seeds);
  EXPECT_THAT(lower.warnings, IsEmpty());
  const PairedResult higher = compare_paired(random_differences(3, 60, 0.1, 3));
  EXPECT_EQ(verdict(higher, higher.p), Verdict::kHigher);
  const PairedResult none = compare_paired(random_differences(3, 60, 0, 14));
  EXPECT_EQ(verdict(none, none.p), Verdict::kNoDifferenceShown);
  EXPECT_GT(none.smallest_detectable, 0);
  EXPECT_LT(none.smallest_detectable, 0.1);
}

TEST(Paired, VerdictNeedsIntervalAndPValue) {
  PairedResult result;
  result.low = -2;
  result.high = -1;
  EXPECT_EQ(verdict(result, 0.05), Verdict::kLower);
  EXPECT_EQ(verdict(result, 0.06), Verdict::kNoDifferenceShown);
  EXPECT_EQ(verdict(result, std::numeric_limits<double>::quiet_NaN()), Verdict::kNoDifferenceShown);
  result.high = 0.1;
  EXPECT_EQ(verdict(result, 0.001), Verdict::kNoDifferenceShown);
  result.low = 0.05;
  EXPECT_EQ(verdict(result, 0.001), Verdict::kHigher);
}

TEST(Paired, EffectSizeIsCohensDzForEqualUnits) {
  const PairedResult result = compare_paired({{{2, 4, 6, 8, 5, 5}}, {2, 2, 2, 2, 2, 2}});
  // Differences per target 1, 2, 3, 4, 2.5, 2.5: mean 2.5, sum of squares 5, variance 1.
  EXPECT_NEAR(result.effect_size, 2.5, 1e-12);
  EXPECT_NEAR(result.standard_error, 1 / std::sqrt(6.0), 1e-12);
}

TEST(Paired, SeedsThatDifferWidenTheInterval) {
  PairedDifferences differences = random_differences(2, 60, -0.1, 5);
  const PairedResult agreeing = compare_paired(differences);
  for (std::size_t j = 0; j < 60; ++j) {
    differences.sums[0][j] += 0.08 * differences.targets[j];
    differences.sums[1][j] -= 0.08 * differences.targets[j];
  }
  const PairedResult differing = compare_paired(differences);
  EXPECT_NEAR(agreeing.mean, differing.mean, 1e-12);
  EXPECT_EQ(verdict(agreeing, agreeing.p), Verdict::kLower);
  EXPECT_EQ(verdict(differing, differing.p), Verdict::kNoDifferenceShown);
  EXPECT_GT(differing.seed_share, 0.95);
  EXPECT_GT(differing.p, 0.3);
  EXPECT_GT(differing.smallest_detectable, 10 * agreeing.smallest_detectable);
}

TEST(Paired, SeedsThatAgreeByChanceDoNotNarrowIt) {
  // The same mean in both seeds, but no unit agrees: units alone give the interval.
  PairedDifferences differences = random_differences(2, 30, 0, 6);
  const double total = 30;
  differences.targets.assign(30, 1.0);
  for (auto& row : differences.sums) {
    double mean = 0;
    for (const double value : row) mean += value / total;
    for (double& value : row) value += 1 - mean;
  }
  const PairedResult result = compare_paired(differences);
  EXPECT_LT(result.variance.seeds, 1e-20);
  const double half = t_quantile(0.975, 29) * std::sqrt(result.variance.units);
  EXPECT_GE(result.high - result.low, 2 * half * (1 - 1e-10));
}

TEST(Paired, IdenticalArmsGiveZero) {
  const PairedResult result = compare_paired({{{0, 0, 0}, {0, 0, 0}}, {4, 5, 6}});
  EXPECT_EQ(result.mean, 0);
  EXPECT_EQ(result.low, 0);
  EXPECT_EQ(result.high, 0);
  EXPECT_EQ(result.p, 1);
  EXPECT_EQ(result.effect_size, 0);
  EXPECT_EQ(verdict(result, result.p), Verdict::kNoDifferenceShown);
  EXPECT_TRUE(std::isnan(result.smallest_detectable));
  EXPECT_THAT(result.warnings[0], HasSubstr("all differences are 0"));
}

TEST(Paired, EqualDifferencesHaveNoWidth) {
  std::vector<double> targets;
  std::vector<double> row;
  for (int j = 0; j < 12; ++j) {
    targets.push_back(3 + j);
    row.push_back(0.1 * (3 + j));
  }
  for (const std::size_t seeds : {std::size_t{1}, std::size_t{3}}) {
    const PairedResult result =
        compare_paired({std::vector<std::vector<double>>(seeds, row), targets});
    EXPECT_NEAR(result.low, 0.1, 1e-9);
    EXPECT_NEAR(result.high, 0.1, 1e-9);
    EXPECT_NEAR(result.p, 1.0 / 2048, 1e-12);
    EXPECT_EQ(result.smallest_detectable, 0);
    EXPECT_EQ(verdict(result, result.p), Verdict::kHigher);
  }
}

// Draws of the bootstrap without one of the few differences have no variance but rounding errors.
TEST(Paired, FewDifferencesAmongEqualUnitsBoundTheInterval) {
  for (const std::size_t different : {1, 2, 4}) {
    PairedDifferences answers{.sums = {std::vector<double>(32, 0.0)},
                              .targets = std::vector<double>(32, 20.0)};
    for (std::size_t j = 0; j < different; ++j) answers.sums[0][5 * j] = j % 2 == 0 ? 1.0 : -1.0;
    const PairedResult result = compare_paired(answers);
    EXPECT_GT(result.low, -0.05);
    EXPECT_LT(result.high, 0.05);
    EXPECT_GT(result.smallest_detectable, 0.0);
    EXPECT_LT(result.smallest_detectable, 0.05);
    EXPECT_EQ(verdict(result, result.p), Verdict::kNoDifferenceShown);
  }
}

TEST(Paired, OneUnitBoundsNothing) {
  const PairedResult result = compare_paired({{{3}, {5}}, {10}});
  EXPECT_DOUBLE_EQ(result.mean, 0.4);
  EXPECT_EQ(result.low, -std::numeric_limits<double>::infinity());
  EXPECT_EQ(result.high, std::numeric_limits<double>::infinity());
  EXPECT_EQ(result.p, 1);
  EXPECT_EQ(verdict(result, result.p), Verdict::kNoDifferenceShown);
  EXPECT_THAT(result.warnings, ElementsAre(HasSubstr("one unit")));
}

TEST(Paired, WarnsOfOneSeedAndFewUnits) {
  const PairedResult few = compare_paired(random_differences(1, 5, 1, 7));
  EXPECT_THAT(few.warnings, ElementsAre(HasSubstr("one seed"), HasSubstr("only 5 units")));
  EXPECT_FALSE(few.covers_seeds);
  // 2^-4: no sign-flip test of five units is below 0.05, so nothing can be detected.
  EXPECT_DOUBLE_EQ(few.p, 0.0625);
  EXPECT_EQ(few.smallest_detectable, std::numeric_limits<double>::infinity());
  EXPECT_EQ(verdict(few, few.p), Verdict::kNoDifferenceShown);
  EXPECT_THAT(compare_paired(random_differences(2, 9, 1, 7)).warnings,
              ElementsAre(HasSubstr("only 9 units")));
  PairedDifferences uneven = random_differences(2, 30, 1, 7);
  uneven.targets[3] = 100000;
  EXPECT_THAT(compare_paired(uneven).warnings, ElementsAre(HasSubstr("count as about 1 equal")));
}

TEST(Paired, SeveralArmsRaiseTheDetectableDifference) {
  PairedOptions options;
  options.arms = 4;
  for (const std::size_t seeds : {std::size_t{1}, std::size_t{3}}) {
    const PairedDifferences differences = random_differences(seeds, 40, 0.02, 11);
    const PairedResult one = compare_paired(differences);
    const PairedResult four = compare_paired(differences, options);
    EXPECT_GT(four.smallest_detectable, 1.05 * one.smallest_detectable);
    EXPECT_LT(four.smallest_detectable, 2 * one.smallest_detectable);
    EXPECT_EQ(four.high, one.high);
    EXPECT_EQ(four.p, one.p);
  }
  // Six units: no p is below 2^-5, which is 0.0625 for the smallest of two.
  options.arms = 2;
  const PairedDifferences six = random_differences(1, 6, 1, 7);
  EXPECT_GT(compare_paired(six).smallest_detectable, 0);
  EXPECT_LT(compare_paired(six).smallest_detectable, 1);
  const PairedResult none = compare_paired(six, options);
  EXPECT_EQ(none.smallest_detectable, std::numeric_limits<double>::infinity());
  EXPECT_THAT(none.warnings,
              ElementsAre(HasSubstr("one seed"),
                          HasSubstr("reaches p = 0.05 after Holm's correction over 2 arms")));
}

// Reference: every choice of signs of the differences less the margin, and the share of those whose
// studentised mean is as far on the data's side as theirs.
double reference_margin_p(const PairedDifferences& differences, double margin) {
  const std::size_t units = differences.targets.size();
  const auto t_of = [&](std::uint64_t flips) {
    std::vector<double> signed_differences;
    for (std::size_t j = 0; j < units; ++j) {
      const double beyond = differences.sums[0][j] - margin * differences.targets[j];
      signed_differences.push_back((flips >> j) % 2 == 0 ? beyond : -beyond);
    }
    const UnitVariance of = unit_variance(signed_differences, differences.targets);
    return of.mean / std::sqrt(of.variance);
  };
  const double observed = t_of(0);
  const std::uint64_t all = std::uint64_t{1} << units;
  int count = 0;
  for (std::uint64_t flips = 0; flips < all; ++flips) {
    const double t = t_of(flips);
    count += (observed < 0 ? -t : t) >= std::abs(observed) * (1 - 1e-9);
  }
  const double share = static_cast<double>(count) / static_cast<double>(all);
  return observed < 0 ? share : 1 - share;
}

TEST(Paired, MarginIsTestedByTheSignsOfDifferencesLessTheMargin) {
  const PairedDifferences differences = random_differences(1, 11, 0.02, 21);
  const PairedResult result = compare_paired(differences);
  for (const double margin : {-0.05, 0.0, 0.03, 0.05, 0.08}) {
    EXPECT_NEAR(margin_p(differences, margin), reference_margin_p(differences, margin), 1e-12)
        << margin;
  }
  // At a margin of 0 the two-sided p value is twice the smaller one of both sides.
  const double p = margin_p(differences, 0);
  EXPECT_NEAR(std::min(p, 1 - p), result.p / 2, 1e-12);
}

TEST(Paired, MarginCountsHowSeedsDiffer) {
  PairedDifferences differences = random_differences(2, 60, 0, 22);
  EXPECT_LT(margin_p(differences, 0.06), 0.001);
  EXPECT_GT(margin_p(differences, -0.06), 0.999);
  for (std::size_t j = 0; j < 60; ++j) {
    differences.sums[0][j] += 0.08 * differences.targets[j];
    differences.sums[1][j] -= 0.08 * differences.targets[j];
  }
  EXPECT_GT(margin_p(differences, 0.06), 0.1);
}

TEST(Paired, MarginNeedsIntervalAndPValue) {
  PairedResult result;
  result.low = -1;
  result.high = 0.004;
  EXPECT_TRUE(is_below_margin(result, 0.005, 0.05));
  EXPECT_FALSE(is_below_margin(result, 0.005, 0.06));
  EXPECT_FALSE(is_below_margin(result, 0.005, std::numeric_limits<double>::quiet_NaN()));
  EXPECT_FALSE(is_below_margin(result, 0.004, 0.001));
  const PairedDifferences equal{{{0, 0, 0, 0, 0, 0}}, {4, 5, 6, 4, 5, 6}};
  EXPECT_DOUBLE_EQ(margin_p(equal, 0.1), 1.0 / 64);
  EXPECT_TRUE(is_below_margin(compare_paired(equal), 0.1, margin_p(equal, 0.1)));
  EXPECT_EQ(margin_p({{{3}}, {10}}, 5), 1);  // one unit says nothing
}

TEST(Paired, RefusesBadInput) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THAT(paired_refusal({{}, {1}}), HasSubstr("nothing to compare"));
  EXPECT_THAT(paired_refusal({{{}}, {}}), HasSubstr("nothing to compare"));
  EXPECT_THAT(paired_refusal({{{1, 2}, {1}}, {1, 1}}),
              HasSubstr("seed number 2: number of differences: expected 2, one a unit, got 1"));
  EXPECT_THAT(paired_refusal({{{1, 2}}, {1, 0}}), HasSubstr("unit 1: number of targets"));
  EXPECT_THAT(paired_refusal({{{1, 2}}, {nan, 1}}), HasSubstr("unit 0: number of targets"));
  EXPECT_THAT(paired_refusal({{{1, 2}, {1, nan}}, {1, 1}}),
              HasSubstr("seed number 2, unit 1: difference of losses: expected a finite number"));
}

TEST(Paired, RefusesAMarginThatIsNoNumber) {
  for (const double margin :
       {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    try {
      static_cast<void>(margin_p(random_differences(1, 8, 0, 8), margin));
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("margin of a paired comparison"));
      EXPECT_THAT(error.what(), HasSubstr("expected a finite number"));
    }
  }
}

TEST(Paired, RefusesOptionsOutOfRange) {
  const PairedDifferences differences = random_differences(1, 8, 0, 8);
  const auto with = [](auto change) {
    PairedOptions options;
    change(options);
    return options;
  };
  EXPECT_THAT(paired_refusal(differences, with([](auto& o) { o.level = 1; })),
              HasSubstr("option level"));
  EXPECT_THAT(paired_refusal(differences, with([](auto& o) { o.power = 0.01; })),
              HasSubstr("option power"));
  EXPECT_THAT(paired_refusal(differences, with([](auto& o) { o.bootstrap_draws = 5; })),
              HasSubstr("option bootstrap_draws"));
  EXPECT_THAT(paired_refusal(differences, with([](auto& o) { o.sign_flip_draws = 5; })),
              HasSubstr("option sign_flip_draws"));
  EXPECT_THAT(paired_refusal(differences, with([](auto& o) { o.exact_units = 40; })),
              HasSubstr("option exact_units"));
  EXPECT_THAT(paired_refusal(differences, with([](auto& o) { o.arms = 0; })),
              HasSubstr("option arms"));
}

TEST(Paired, IsFast) {
  const PairedDifferences differences = random_differences(5, 60, 0.01, 9);
  const auto start = std::chrono::steady_clock::now();
  (void)compare_paired(differences);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  RecordProperty("seconds", std::to_string(seconds.count()));
  EXPECT_LT(seconds.count(), 10);  // 0.05 s when optimised on an idle core
}

}  // namespace
}  // namespace mneme::stats
