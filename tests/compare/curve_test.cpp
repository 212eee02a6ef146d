// The part of the valid split on which learning curves are measured.
#include "host/compare/planning/curve.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "host/compare/runs.hpp"
#include "host/memory/abi/groups.hpp"
#include "host/run/runtime.hpp"
#include "tests/base/log_capture.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/base/tiny_motif.hpp"
#include "tests/compare/prepared_arms.hpp"

namespace mneme::compare {
namespace {

using ::testing::HasSubstr;

config::Experiment experiment(const std::string& train, const std::string& data = test::kMotifData,
                              const std::string& eval = "steps = 30\n") {
  return config::parse_experiment_text(
      test::tiny_model() + data + "[train]\nsegment = 8\nlanes = 4\n" + train + "[eval]\n" + eval,
      "e.toml", ".", {});
}

CurvePlan plan_of(const config::Experiment& experiment) {
  return plan_curve(experiment, data::Dataset(experiment.data), experiment.train.steps);
}

// A segment of an evaluation is taken to cost half a segment of the training.
TEST(PlanCurve, TakesATenthOfTheTraining) {
  const CurvePlan plan = plan_of(experiment("steps = 1000\n"));
  EXPECT_EQ(plan.points, 10);
  EXPECT_EQ(plan.segments, 20);
  EXPECT_EQ(plan_of(experiment("steps = 1000\naccumulate = 4\n")).segments, 30);  // all
  // Twice as many tokens a segment: half as many segments.
  EXPECT_EQ(
      plan_of(experiment("steps = 1000\n", test::kMotifData, "steps = 30\nlanes = 8\n")).segments,
      10);
}

TEST(PlanCurve, HasFewerPointsInAShortTraining) {
  const CurvePlan plan = plan_of(experiment("steps = 60\n"));
  EXPECT_EQ(plan.points, 3);
  EXPECT_EQ(plan.segments, 4);
  EXPECT_EQ(plan_of(experiment("steps = 30\n")).points, 0);
}

TEST(PlanCurve, TakesItsPointsFromEvalEvery) {
  const CurvePlan plan = plan_of(experiment("steps = 1000\neval_every = 200\n"));
  EXPECT_EQ(plan.points, 5);
  EXPECT_EQ(plan.segments, 30);  // of 40, all that there are
}

// The targets of a copy task follow the whole sequence.
TEST(PlanCurve, ReachesOverASequencesTargets) {
  const config::Experiment copy =
      experiment("steps = 2000\n",
                 "[data]\ntask = \"copy\"\nalphabet = 8\nlength = 6\ngap = 80\n"
                 "train_sequences = 100\nvalid_sequences = 40\n",
                 "steps = 0\n");
  const CurvePlan plan = plan_of(copy);
  ASSERT_GE(plan.points, 2);
  run::Runtime runtime(copy, {});
  EXPECT_GT(runtime.evaluate_split(data::Split::kValid, {}, plan.segments).total.targets, 0);
}

class PrepareCurves : public PreparedArms {};

TEST_F(PrepareCurves, GivesAllArmsTheSamePart) {
  const Record record = prepared("steps = 1000\n", "train.steps=500");
  EXPECT_EQ(record.arms[0].curve.every, 100);
  EXPECT_EQ(record.arms[1].curve.every, 50);
  for (const ArmRecord& arm : record.arms) EXPECT_EQ(arm.curve.segments, 20);
}

TEST_F(PrepareCurves, SaysThatEarlyStopIsIgnored) {
  const test::LogCapture log;
  const Record record = prepared("steps = 1000\neval_every = 100\nearly_stop = 3\n");
  EXPECT_EQ(record.arms[0].setup.experiment.train.early_stop, 0);
  EXPECT_EQ(record.arms[0].setup.experiment.train.eval_every, 0);
  EXPECT_EQ(record.arms[0].curve.every, 100);
  EXPECT_THAT(log.text(), HasSubstr("train.early_stop is ignored"));
}

TEST_F(PrepareCurves, ChecksEveryMemory) {
  const Record record = prepared("steps = 5\n");
  EXPECT_TRUE(record.arms[0].checks.is_complete());
  EXPECT_FALSE(record.arms[0].checks.has_failed());
  EXPECT_EQ(to_json(record)["arms"][0]["checks"]["checks"].size(), 3U);
}

}  // namespace
}  // namespace mneme::compare
