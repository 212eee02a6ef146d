#include "host/compare/tuning/halving.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "host/compare/tuning/trials.hpp"
#include "tests/base/temporary_folder.hpp"

namespace mneme::compare {
namespace {

using test::error_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Two arms with as many trials, whose losses a test makes up.
class HalvedTrials : public ::testing::Test {
 protected:
  void SetUp() override {
    record_.seeds = {1001};
    for (const char* const arm : {"none", "cache"}) {
      for (int i = 0; i < 4; ++i) {
        ArmRecord& trial = record_.arms.emplace_back();
        trial.setup.name = str(arm, ",lr=", i);
        trial.setup.variant_of = arm;
        trial.runs.push_back({.arm = trial.setup.name, .seed = 1001, .folder = trial.setup.name});
      }
    }
    record_.rungs = plan_rungs(record_.arms, std::vector<std::int64_t>(8, 1000), 100);
  }
  // Those that have work, with their steps.
  [[nodiscard]] std::string work() const {
    std::vector<std::string> out;
    for (const ArmRecord& trial : record_.arms) {
      if (has_work(trial)) out.push_back(str(trial.setup.name, ":", trial.stop_at));
    }
    return join(out, " ");
  }
  void end(std::size_t place, double loss) {
    record_.arms[place].runs[0].state = RunRecord::State::kDone;
    record_.arms[place].runs[0].loss = loss;
  }

  test::TemporaryFolder folder_;
  Record record_;
};

TEST_F(HalvedTrials, GoOnByTheirLosses) {
  begin_rung(record_, 0, folder_.path());
  EXPECT_EQ(record_.count_runs(), 8);
  for (std::size_t i = 0; i < 8; ++i) end(i, i % 4 == 1 ? 1.0 : 2.0 + static_cast<double>(i));
  record_.arms[4].runs[0].state = RunRecord::State::kFailed;
  end_rung(record_, 0);
  begin_rung(record_, 1, folder_.path());
  EXPECT_EQ(work(), "none,lr=0:200 none,lr=1:200 cache,lr=1:200 cache,lr=2:200");
  EXPECT_EQ(record_.count_runs(), 4);
  const Json json = to_json(record_).at("arms");
  EXPECT_EQ(json.at(1).at("runs").at(0).at("state"), "waiting");
  EXPECT_EQ(json.at(1).at("stop_at"), 200);
  EXPECT_EQ(json.at(2).at("runs").at(0).at("state"), "done");
  EXPECT_EQ(json.at(2).at("stop_at"), 100);
  EXPECT_EQ(json.at(4).at("runs").at(0).at("state"), "failed");
  end(0, 0.5);
  end(1, 0.75);
  end(5, 0.5);
  record_.arms[6].runs[0].state = RunRecord::State::kFailed;
  record_.arms[6].runs[0].error = "diverged";
  end_rung(record_, 1);

  std::vector<ArmSetup> arms(2);
  arms[0].name = "none";
  arms[1].name = "cache";
  const auto tried = tried_arms(record_, arms);
  EXPECT_EQ(tried[0].trials[0].loss, 0.5);
  EXPECT_EQ(tried[0].trials[0].steps, 200);
  EXPECT_EQ(tried[0].trials[2].loss, 4.0);
  EXPECT_EQ(tried[0].trials[2].steps, 100);
  EXPECT_EQ(tried[1].trials[2].error, "diverged");
  EXPECT_THAT(scores::choose_trials(tried, {}),
              ElementsAre(::testing::Optional(0U), ::testing::Optional(1U)));
}

// The steps that a dry run plans are those of the rungs.
TEST_F(HalvedTrials, ArePlannedWithTheStepsOfAllRungs) {
  plan_stops(record_);
  EXPECT_EQ(work(),
            "none,lr=0:200 none,lr=1:200 none,lr=2:100 none,lr=3:100 "
            "cache,lr=0:200 cache,lr=1:200 cache,lr=2:100 cache,lr=3:100");
}

TEST_F(HalvedTrials, AreRefusedWithoutAnythingToHalve) {
  const auto refusal = [&](std::vector<std::int64_t> lengths, std::int64_t steps) {
    return error_of([&] { static_cast<void>(plan_rungs(record_.arms, lengths, steps)); });
  };
  EXPECT_EQ(refusal(std::vector<std::int64_t>(8, 100), 100),
            "2: --tune-halving 100: every trial would be trained whole: expected fewer steps than "
            "a training has, 100; leave it out to train all trials whole");
  EXPECT_EQ(refusal({9, 9, 8, 8, 9, 9, 9, 9}, 3),
            "2: --tune-halving: trials of trainings of different lengths cannot be compared after "
            "equal numbers of steps: expected keys that leave the length as it is, got none,lr=0: "
            "9 steps, none,lr=2: 8");
}

// A value that is good early need not be the better one at the end.
TEST_F(HalvedTrials, SayThatTheyEndBeforeTheTraining) {
  EXPECT_EQ(
      early_end(scores::halving_rungs(5, 100, 1001), 1001),
      "--tune-halving 100: values are chosen after 400 of 1001 steps; with --tune-halving 251 "
      "the last trials are trained whole");
  EXPECT_EQ(early_end(scores::halving_rungs(5, 251, 1001), 1001), "");
  EXPECT_NE(early_end(scores::halving_rungs(5, 250, 1001), 1001), "");
  EXPECT_EQ(early_end(scores::halving_rungs(2, 100, 1000), 1000),
            "--tune-halving 100: values are chosen after 100 of 1000 steps; to choose after whole "
            "trainings, leave it out");
}

TEST_F(HalvedTrials, ThatWereTrainedPastARungAreNotTaken) {
  const std::vector<scores::Rung> rungs{{4, 10}, {2, 20}};
  EXPECT_EQ(missed_rung(folder_.path(), rungs, {}), 0);
  folder_.write("experiment.toml", "");
  std::filesystem::create_directories(folder_ / "checkpoints");
  folder_.write("checkpoints/step_00000010.safetensors", "");
  EXPECT_EQ(missed_rung(folder_.path(), rungs, {}), 0) << "its evaluation can be made";
  folder_.write("checkpoints/step_00000012.safetensors", "");
  EXPECT_EQ(missed_rung(folder_.path(), rungs, {}), 10);
}

}  // namespace
}  // namespace mneme::compare
