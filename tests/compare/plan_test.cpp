// What a comparison is said to cost before it runs.
#include "host/compare/planning/plan.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "host/compare/planning/disk.hpp"
#include "host/memory/abi/groups.hpp"
#include "host/train/trainer.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/base/tiny_motif.hpp"
#include "tests/compare/prepared_arms.hpp"

namespace mneme::compare {
namespace {

class MakePlan : public PreparedArms {};

TEST_F(MakePlan, TellsSizesTimeAndDisk) {
  options_.seeds = 2;
  const Record record = prepared("steps = 1000\n");
  const Plan plan = make_plan(record, options_, 1, loader_);
  ASSERT_EQ(plan.arms.size(), 2U);
  double seconds = 0.0;
  for (const ArmPlan& arm : plan.arms) {
    EXPECT_EQ(arm.steps, 1000);
    EXPECT_GT(arm.step_seconds, 0.0);
    EXPECT_NEAR(arm.training_seconds, 1000 * arm.step_seconds, 1e-9);
    EXPECT_GT(arm.evaluation_seconds, 0.0);
    EXPECT_GT(arm.training.total(), 0);
    EXPECT_NEAR(arm.seconds_left, 2 * (arm.training_seconds + arm.evaluation_seconds), 1e-9);
    seconds += arm.seconds_left;
  }
  EXPECT_NEAR(plan.seconds, seconds, 1e-9);
  EXPECT_GT(plan.free_disk_bytes, 0);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "runs"));  // nothing is written
  EXPECT_EQ(to_json(plan, record)["arms"][0]["runs"], 2);
}

// The first segment of a sequence of "copy" has no target.
TEST_F(MakePlan, TimesEvaluationsThatBeginWithoutATarget) {
  const auto memory = folder_.write("none.toml", "[memory]\n");
  const std::string text = test::tiny_model() +
                           "[data]\ntask = \"copy\"\nlength = 4\nalphabet = 8\ngap = 20\n"
                           "train_sequences = 64\nvalid_sequences = 16\ntest_sequences = 16\n"
                           "[train]\nsegment = 8\nlanes = 4\nsteps = 100\n";
  const std::vector<ArmRequest> arms = {{.memory = memory}};
  options_.folder = folder_ / "runs";
  const Record record = prepare(read_arms(folder_.write("copy.toml", text), arms, {}, {}, loader_),
                                options_, loader_);
  EXPECT_GT(make_plan(record, options_, 1, loader_).arms[0].evaluation_seconds, 0.0);
}

// What a run that was trained takes on the disk is what was planned, within a third.
TEST_F(MakePlan, TellsTheDiskThatRunsTake) {
  const Record record = prepared("steps = 60\n");
  const std::int64_t planned = make_plan(record, options_, 1, loader_).arms[0].disk_bytes;
  const auto folder = folder_ / "runs" / record.arms[0].runs[0].folder;
  train::TrainerOptions options{.folder = folder};
  train::Trainer(record.arms[0].setup.experiment, std::move(options)).train();
  std::int64_t taken = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) taken += static_cast<std::int64_t>(entry.file_size());
  }
  // A megabyte is kept for files that do not grow with the model.
  EXPECT_GE(planned, taken - 100'000);
  EXPECT_LE(planned, taken + (1 << 20) + 100'000);
  const Record done = prepared("steps = 60\n");
  EXPECT_LT(done.arms[0].disk_bytes, planned + 100'000);
  EXPECT_GT(done.arms[0].disk_bytes, planned - 100'000);
  EXPECT_EQ(disk_left(done, options_.folder), done.arms[1].disk_bytes);  // the other is complete
  // A run that is done takes no more time.
  const Plan again = make_plan(prepared("steps = 60\n"), options_, 2, loader_);
  EXPECT_EQ(again.disk_bytes, again.arms[1].disk_bytes);  // what is there is left out
  EXPECT_EQ(again.arms[0].seconds_left, 0.0);
  EXPECT_GT(again.arms[1].seconds_left, 0.0);
  EXPECT_NEAR(again.seconds, again.arms[1].seconds_left, 1e-9);  // one process has it
}

// No step is begun that takes too long by its operations alone.
TEST_F(MakePlan, BeginsNoStepThatWouldTakeTooLong) {
  Record record = prepared("steps = 1000\n");
  record.arms[0].flops = {{"training", 1e15}};
  const Plan plan = make_plan(record, options_, 1, loader_);
  EXPECT_FALSE(plan.is_timed);
  EXPECT_FALSE(plan.arms[0].is_timed);
  EXPECT_GT(plan.arms[0].least_step_seconds, 60.0);
  EXPECT_TRUE(plan.arms[1].is_timed);
}

// No other step and no evaluation is begun after one that took too long.
TEST_F(MakePlan, DoesNotKnowTimesOfStepsThatTakeTooLong) {
  std::vector<std::size_t> told;
  Record record = prepared("steps = 1000\n");
  for (ArmRecord& arm : record.arms) arm.flops = nullptr;  // as where they could not be counted
  const Plan plan =
      make_plan(record, options_, 1, loader_,
                {.most_seconds = 1e-9, .on_arm = [&](std::size_t arm) { told.push_back(arm); }});
  EXPECT_EQ(told, (std::vector<std::size_t>{0, 1}));
  EXPECT_FALSE(plan.is_timed);
  EXPECT_FALSE(plan.arms[0].is_timed);
  EXPECT_GT(plan.arms[0].least_step_seconds, 0.0);
  EXPECT_GT(plan.arms[0].disk_bytes, 0);
  const Json json = to_json(plan, record);
  EXPECT_TRUE(json.at("seconds").is_null());
  EXPECT_TRUE(json.at("arms").at(0).at("step_seconds").is_null());
  EXPECT_TRUE(json.at("arms").at(0).at("state_bytes").is_null());
}

TEST(Disk, IsWarnedOfWhenItIsTooSmall) {
  EXPECT_EQ(disk_warning(3 << 20, 1 << 20),
            "the runs will take about 3.0 MiB of the disk, 1.0 MiB are free: make room, or name "
            "another place with --run DIR");
  EXPECT_EQ(disk_warning(1 << 20, 1 << 20), "");
  EXPECT_EQ(disk_warning(1 << 20, -1), "");  // nothing is known of the file system
}

}  // namespace
}  // namespace mneme::compare
