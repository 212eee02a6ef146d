#include "host/stats/plan.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "host/base/error.hpp"
#include "host/base/random.hpp"

namespace mneme::stats {
namespace {

using ::testing::HasSubstr;

constexpr std::size_t kUnits = 40;

// Differences with effects of seeds, of units, and noise, in units of 10 targets.
PairedDifferences pilot_differences(std::size_t seeds, double seed_effect, double unit_effect,
                                    double noise, std::uint64_t seed) {
  Random random(seed, {"plan test"});
  PairedDifferences out;
  out.targets.assign(kUnits, 10.0);
  std::vector<double> units;
  for (std::size_t j = 0; j < kUnits; ++j) units.push_back(unit_effect * random.normal());
  for (std::size_t s = 0; s < seeds; ++s) {
    const double of_seed = seed_effect * random.normal();
    auto& row = out.sums.emplace_back();
    for (const double of_unit : units)
      row.push_back(10 * (of_seed + of_unit + noise * random.normal()));
  }
  return out;
}

PilotPlan plan_of(std::size_t seeds, double seed_effect, double unit_effect = 0.05,
                  double noise = 0.02) {
  return PilotPlan(compare_paired(pilot_differences(seeds, seed_effect, unit_effect, noise, 3)));
}

std::string pilot_refusal(const PairedDifferences& differences) {
  try {
    static_cast<void>(PilotPlan(compare_paired(differences)));
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kRun);
    return error.what();
  }
  return "no error";
}

// Reference: the effects that were drawn.
TEST(PilotPlan, ComponentsAreTheVariancesOfTheEffects) {
  const std::size_t seeds = 400;  // so that estimates lie near
  const VarianceComponents of =
      PilotPlan(compare_paired(pilot_differences(seeds, 0.03, 0.05, 0.1, 5),
                               {.bootstrap_draws = 100, .sign_flip_draws = 100}))
          .components();
  EXPECT_NEAR(of.seeds, 0.03 * 0.03, 0.2 * 0.03 * 0.03);
  EXPECT_NEAR(of.units, 0.05 * 0.05, 0.5 * 0.05 * 0.05);  // of 40 units
  EXPECT_NEAR(of.noise, 0.1 * 0.1, 0.1 * 0.1 * 0.1);
}

TEST(PilotPlan, PowerRisesWithDifferenceSeedsAndUnits) {
  const PilotPlan plan = plan_of(3, 0.02);
  const double power = plan.power(0.03, 4, kUnits);
  EXPECT_GT(power, 0.05);
  EXPECT_LT(power, 0.999);
  EXPECT_GT(plan.power(0.04, 4, kUnits), power);
  EXPECT_GT(plan.power(0.03, 5, kUnits), power);
  EXPECT_GT(plan.power(0.03, 4, 2 * kUnits), power);
  PairedOptions four;
  four.arms = 4;
  const PairedResult pilot = compare_paired(pilot_differences(3, 0.02, 0.05, 0.02, 3));
  EXPECT_LT(PilotPlan(pilot, four).power(0.03, 4, kUnits), power);
}

TEST(PilotPlan, AnswersAgreeWithEachOther) {
  const PilotPlan plan = plan_of(3, 0.02);
  const double difference = plan.detectable(5, kUnits);
  EXPECT_NEAR(plan.power(difference, 5, kUnits), 0.8, 1e-4);
  EXPECT_EQ(plan.seeds_for(1.0001 * difference, kUnits), 5u);
  EXPECT_EQ(plan.seeds_for(0.9999 * difference, kUnits), 6u);
  const auto units = plan.units_for(1.0001 * difference, 5);
  ASSERT_TRUE(units);
  EXPECT_NEAR(static_cast<double>(*units), kUnits, 1.0);
  EXPECT_LT(plan.power(difference, 5, *units - 2), 0.8);
}

TEST(PilotPlan, SeedsAloneDoNotOvercomeUnits) {
  // What 40 documents leave uncertain is there with every seed, and the reverse.
  const PilotPlan by_units = plan_of(3, 0.001, 0.1);
  EXPECT_EQ(by_units.seeds_for(0.01, kUnits), std::nullopt);
  EXPECT_TRUE(by_units.units_for(0.01, 3));
  const PilotPlan by_seeds = plan_of(3, 0.1, 0.001, 0.001);
  EXPECT_EQ(by_seeds.units_for(0.05, 3), std::nullopt);
  EXPECT_TRUE(by_seeds.seeds_for(0.05, kUnits));
}

TEST(PilotPlan, APilotOfFewSeedsPromisesLess) {
  const PilotPlan two = plan_of(2, 0.05);
  const PilotPlan many = plan_of(200, 0.05);
  const double of_two = two.detectable(5, kUnits) / std::sqrt(two.components().seeds / 5);
  const double of_many = many.detectable(5, kUnits) / std::sqrt(many.components().seeds / 5);
  EXPECT_GT(of_two, 1.3 * of_many);
}

TEST(PilotPlan, TooFewUnitsShowNothing) {
  const PilotPlan plan = plan_of(3, 0.02);
  EXPECT_EQ(plan.power(10, 5, 5), 0.0);  // 2^-4 is above 0.05
  EXPECT_EQ(plan.detectable(5, 5), std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::isfinite(plan.detectable(5, 6)));
  EXPECT_GE(*plan.units_for(10, 5), 6u);
}

TEST(PilotPlan, RefusesPilotsThatSayNothing) {
  EXPECT_THAT(pilot_refusal(pilot_differences(1, 0.1, 0.1, 0.1, 1)),
              HasSubstr("pilot: says nothing of how trainings differ: expected two seeds or more, "
                        "got one; train another seed of each arm"));
  EXPECT_THAT(pilot_refusal({{{1}, {2}}, {10}}),
              HasSubstr("pilot: says nothing of how texts differ"));
  EXPECT_THAT(
      pilot_refusal({{{0, 0, 0}, {0, 0, 0}}, {1, 1, 1}}),
      HasSubstr("pilot: says nothing of other experiments: expected differences that vary"));
}

}  // namespace
}  // namespace mneme::stats
