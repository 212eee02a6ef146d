// Plans from a pilot: the noise floor, the differences that more seeds and documents show, costs.
#include "host/report/pilot.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "host/report/differences/differences.hpp"
#include "tests/report/report_folders.hpp"

namespace mneme::report {
namespace {

namespace fs = std::filesystem;
using test::Fixture;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Pilot : public test::ReportFolders {
 protected:
  [[nodiscard]] PilotReport pilot(double difference = 0.0) const {
    return read_pilot(comparison_of(small_), "", difference);
  }
  static std::string pilot_refusal(const Comparison& comparison, ErrorKind kind,
                                   const std::string& split = "") {
    try {
      static_cast<void>(read_pilot(comparison, split, 0.0));
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), kind) << error.what();
      return error.what();
    }
    return "no error";
  }
};

// Reference: the losses of both seeds of each arm.
TEST_F(Pilot, NoiseFloorIsHowFarTwoTrainingsOfAnArmDiffer) {
  const Comparison comparison = comparison_of(small_);
  double squares = 0.0;
  for (const Arm& arm : comparison.arms) {
    const double apart = arm.runs[0].find("valid")->loss() - arm.runs[1].find("valid")->loss();
    squares += apart * apart / static_cast<double>(comparison.arms.size());
  }
  const PilotReport report = read_pilot(comparison, "", 0.0);
  EXPECT_NEAR(report.noise.two_trainings(), std::sqrt(squares), 1e-12);
  EXPECT_EQ(report.noise.degrees, 3u);
  EXPECT_EQ(report.split, "valid");
  EXPECT_EQ(report.next_seed, 3u);
  EXPECT_THAT(report.text(), AllOf(HasSubstr("Pilot: 2 seeds, 12 documents of valid.\n"),
                                   HasSubstr("--set train.seed=3")));
}

TEST_F(Pilot, DifferencesAreThoseOfThePilotsVariances) {
  const Comparison comparison = comparison_of(small_);
  const PilotReport report = read_pilot(comparison, "valid", 0.0);
  ASSERT_EQ(report.arms.size(), 2u);
  EXPECT_THAT(report.units, ElementsAre(12, 24, 48));
  const Difference cache = differences(comparison)[0];
  const stats::PilotPlan plan(*cache.statistics, {.arms = 2});
  for (std::size_t i = 0; i < report.extents.size(); ++i) {
    const Extent extent = report.extents[i];
    EXPECT_DOUBLE_EQ(report.arms[0].detectable[i], plan.detectable(extent.seeds, extent.units));
  }
  EXPECT_TRUE(report.arms[0].needed.empty());
  const Json json = report.json();
  EXPECT_EQ(json.at("format"), "mneme-plan");
  EXPECT_EQ(json.at("arms")[0].at("name"), "xl_cache");
  EXPECT_EQ(json.at("arms")[0].at("detectable")[0].at("seeds"), 2);
  EXPECT_EQ(json.at("arms")[0].at("detectable")[0].at("difference"), report.arms[0].detectable[0]);
  EXPECT_TRUE(json.at("difference").is_null());
}

// Reference: the losses of both arms, seed by seed.
TEST_F(Pilot, SaysWhichDifferencesThePilotSaw) {
  const Comparison comparison = comparison_of(small_);
  const PilotReport report = read_pilot(comparison, "", 0.0);
  std::vector<double> seeds;
  for (const std::size_t seed : {0, 1}) {
    seeds.push_back(comparison.arms[1].runs[seed].find("valid")->loss() -
                    comparison.arms[0].runs[seed].find("valid")->loss());
  }
  const double deviation = std::abs(seeds[0] - seeds[1]) / std::sqrt(2.0);
  EXPECT_NEAR(report.arms[0].mean, (seeds[0] + seeds[1]) / 2.0, 1e-9);
  EXPECT_NEAR(report.arms[0].deviation, deviation, 1e-9);
  EXPECT_THAT(report.text(), AllOf(HasSubstr(str("Seen in the pilot: xl_cache less none ",
                                                 signed_number(report.arms[0].mean), " +- ")),
                                   HasSubstr("This describes the pilot and is no result.")));
  const Json seen = report.json().at("arms")[0].at("pilot_difference");
  EXPECT_EQ(seen.at("mean"), report.arms[0].mean);
  EXPECT_EQ(seen.at("deviation"), report.arms[0].deviation);
}

TEST_F(Pilot, AWishedDifferenceNeedsSeedsByTheUnits) {
  const PilotReport first = pilot();
  const double wished = 1.001 * first.arms[1].detectable[2 * first.units.size() + 1];  // 5 seeds
  ASSERT_EQ(first.extents[2 * first.units.size() + 1].seeds, 5u);
  const PilotReport report = pilot(wished);
  EXPECT_EQ(report.arms[1].needed[1], 5u);
  EXPECT_LE(report.arms[1].needed[2].value(), 5u);
  const Json needed = report.json().at("arms")[1].at("needed")[1];
  EXPECT_EQ(needed.at("seeds"), 5);
  EXPECT_EQ(needed.at("units"), 24);
  EXPECT_EQ(needed.at("seconds"), report.seconds({5, 24}));
  EXPECT_THAT(report.text(), AllOf(HasSubstr("Seeds that a difference of "),
                                   HasSubstr("compressive: 24 documents"), HasSubstr("all arms")));
  const PilotReport small = pilot(1e-7);
  EXPECT_EQ(small.arms[1].needed[0], std::nullopt);
  EXPECT_TRUE(small.json().at("arms")[1].at("needed")[0].at("seeds").is_null());
  EXPECT_THAT(small.text(), HasSubstr("not even 1000 seeds show it"));
}

// Reference: the pilot's own runs, whose cost two seeds have again.
TEST_F(Pilot, CostsAreThoseOfThePilotsRuns) {
  const Comparison comparison = comparison_of(small_);
  const PilotReport report = read_pilot(comparison, "", 0.0);
  double seconds = 0.0;
  double bytes = 0.0;
  for (const ArmRun& one : runs_of(comparison)) {
    seconds += one.run.training.back().seconds + one.run.evaluations[0].result("seconds");
    for (const auto& entry : fs::recursive_directory_iterator(one.run.path)) {
      if (entry.is_regular_file()) bytes += static_cast<double>(entry.file_size());
    }
  }
  EXPECT_NEAR(report.seconds({2, 12}), seconds, 1e-9 * seconds);
  EXPECT_NEAR(report.bytes({2, 12}), bytes, 1e-9 * bytes);
  EXPECT_NEAR(report.seconds({4, 24}), 2 * seconds + 12 * 1.5, 1e-6);  // evaluations: 1.5 s
  EXPECT_GT(report.bytes({2, 24}), report.bytes({2, 12}));
  EXPECT_THAT(report.text(), HasSubstr("of the time training and the stored evaluations. Checks, "
                                       "samples, diagnostics and starts of programs come on top."));
}

TEST_F(Pilot, TrainingTimesThatAreNotKnownAreNotGuessed) {
  Comparison comparison = comparison_of(small_);
  comparison.arms[1].runs[0].training.clear();
  const PilotReport report = read_pilot(comparison, "", 0.0);
  EXPECT_TRUE(report.json().at("seed_cost").at("seconds").is_null());
  EXPECT_FALSE(report.json().at("seed_cost").at("bytes").is_null());
}

TEST_F(Pilot, FaultyArmsAreLeftOut) {
  small_.arms[1].fault = "causality";
  const PilotReport report = pilot();
  ASSERT_EQ(report.arms.size(), 1u);
  EXPECT_EQ(report.arms[0].name, "compressive");
  EXPECT_THAT(report.left_out, ElementsAre("xl_cache is left out: not causal."));
}

TEST_F(Pilot, UnitsMayBeBlocks) {
  small_.data = test::Data::kLanes;
  const PilotReport report = pilot();
  EXPECT_EQ(report.unit, "block");
  EXPECT_THAT(report.text(), HasSubstr(str(" blocks of ", report.block, " targets of valid")));
}

TEST_F(Pilot, RefusesWhatSaysNothing) {
  Fixture one = small_;
  one.seeds = {1};
  EXPECT_THAT(pilot_refusal(comparison_of(one), ErrorKind::kRun),
              AllOf(HasSubstr("xl_cache"), HasSubstr("expected two seeds or more, got one")));
  Fixture alone = small_;
  alone.arms.resize(1);
  EXPECT_THAT(pilot_refusal(comparison_of(alone), ErrorKind::kUsage),
              HasSubstr("expected a pilot of two arms or more, got one, none"));
  Fixture twins = small_;
  twins.arms = {{.name = "none"}, {.name = "twin"}};
  EXPECT_THAT(pilot_refusal(comparison_of(twins), ErrorKind::kRun),
              HasSubstr("expected differences that vary"));
  Fixture faulty = small_;
  faulty.arms.resize(2);
  faulty.arms[1].fault = "reset";
  EXPECT_THAT(pilot_refusal(comparison_of(faulty), ErrorKind::kRun),
              AllOf(HasSubstr("no arm can be compared"), HasSubstr("keeps state over a reset")));
  EXPECT_THAT(
      pilot_refusal(comparison_of(small_), ErrorKind::kUsage, "test"),
      HasSubstr("--split: the pilot has no losses of it: expected \"valid\", got \"test\""));
  Comparison without = comparison_of(small_);
  for (Arm& arm : without.arms) {
    for (auto& run : arm.runs) run.evaluations.clear();
  }
  without.splits.clear();
  EXPECT_THAT(pilot_refusal(without, ErrorKind::kUsage), HasSubstr("no losses are stored"));
}

}  // namespace
}  // namespace mneme::report
