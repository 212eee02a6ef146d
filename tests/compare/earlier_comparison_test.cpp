#include "host/compare/planning/earlier_comparison.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "host/base/log.hpp"
#include "tests/compare/runs_fixture.hpp"

namespace mneme::compare {
namespace {

using ::testing::HasSubstr;

// What is asked for is two arms without a memory, "none" and "none#2", with one seed.
class EarlierComparison : public ::testing::Test {
 protected:
  EarlierComparison() : loader_(memory::make_loader()) { options_.folder = folder_ / "runs"; }

  std::vector<ArmSetup> arms(const std::string& text = test::three_steps(), std::size_t count = 2) {
    const auto memory = folder_.write("none.toml", "[memory]\n");
    return read_arms(folder_.write("tiny.toml", text),
                     std::vector<ArmRequest>(count, {.memory = memory}), {}, {}, loader_);
  }
  // An arm of comparison.json whose runs are done, and their folders.
  Json done(const ArmSetup& arm, const std::vector<std::uint64_t>& seeds) {
    Json runs = Json::array();
    for (const std::uint64_t seed : seeds) {
      const std::string name = str(arm.name, "-seed", seed);
      config::Experiment experiment = arm.experiment;
      experiment.train.seed = seed;
      std::filesystem::create_directories(folder_ / "runs" / name);
      folder_.write("runs/" + name + "/experiment.toml", config::to_toml(experiment));
      runs.push_back({{"seed", seed}, {"folder", name}, {"state", "done"}});
    }
    Json json = {{"name", arm.name}, {"runs", runs}};
    if (!arm.variant_of.empty()) json["variant_of"] = arm.variant_of;
    return json;
  }
  void write(const Json& arms, const Json& more = Json::object()) {
    Json record = {{"command", "mneme compare old.toml"}, {"arms", arms}};
    record.update(more);
    std::filesystem::create_directories(options_.folder);
    folder_.write("runs/comparison.json", record.dump());
  }
  std::string error(const std::vector<ArmSetup>& asked) {
    return test::error_of([&] { check_grows(asked, options_); });
  }
  // A refusal with what is there, and what was asked for.
  std::string refusal(const std::string& there, const std::string& here) const {
    return str("2: ", (options_.folder / "comparison.json").string(),
               ": runs that are done there would be left out: expected ", there, ", got ", here,
               "; name another folder with --run DIR; what is there is continued by: mneme compare "
               "old.toml");
  }

  test::TemporaryFolder folder_;
  plugin::PluginLoader loader_;
  Options options_;
};

TEST_F(EarlierComparison, GrowsByArmsSeedsAndTuning) {
  const auto all = arms();
  EXPECT_EQ(error(all), "no error");  // no folder
  write(Json::array({done(all[0], {1})}));
  options_.seeds = 3;
  EXPECT_EQ(error(all), "no error");
  options_.purpose = Purpose::kTuned;
  EXPECT_EQ(error(all), "no error");
}

TEST_F(EarlierComparison, IsAWarningForADryRun) {
  auto other = arms();
  write(Json::array({done(other[0], {1})}));
  other[0].experiment.train.steps = 9;
  options_.is_dry_run = true;
  std::string said;
  const LogListener listener([&](LogLevel level, std::string_view message) {
    if (level == LogLevel::kWarning) said += message;
    return false;
  });
  EXPECT_EQ(error(other), "no error");
  const std::string refused = refusal("none with train.steps = 3", "train.steps = 9").substr(3);
  EXPECT_EQ(said, "without --dry-run this is refused: " + refused);
}

// Neither the number of evaluations while training nor the seed is part of what an arm is.
TEST_F(EarlierComparison, IsThatOfItsSettings) {
  const auto all = arms();
  write(Json::array({done(all[0], {2}), done(all[1], {1, 2})}));
  options_.seeds = 2;
  auto same = all;
  for (ArmSetup& arm : same) arm.experiment.train.eval_every = 7;
  EXPECT_EQ(error(same), "no error");
  auto other = all;
  for (ArmSetup& arm : other) arm.experiment.train.steps = 9;
  EXPECT_EQ(error(other), refusal("none, none#2 with train.steps = 3", "train.steps = 9"));
  for (ArmSetup& arm : other) {
    arm.experiment.train.lr = 1;
    arm.experiment.model.ff = 64;
    arm.experiment.train.clip = 2;
    arm.experiment.train.lanes = 8;
  }
  EXPECT_THAT(error(other), HasSubstr("none, none#2 with model.ff = 32, train.lanes = 4, "
                                      "train.steps = 3 and 2 more, got model.ff = 64, "));
  other = all;
  other[1].experiment.memory.tiers.push_back({.plugin = "org.example.a"});
  EXPECT_THAT(error(other), HasSubstr("expected none#2 with no memory.tier.0.plugin, "));
  EXPECT_THAT(error(other), HasSubstr(", got memory.tier.0.plugin = \"org.example.a\", "));
}

// On a GPU "auto" may be bf16 where it was f32 on a CPU; a precision that was asked for is kept.
TEST_F(EarlierComparison, MayContinueOnADeviceThatChoosesAnotherPrecision) {
  using config::Precision;
  auto all = arms();
  write(Json::array({done(all[0], {1})}));
  ASSERT_EQ(all[0].experiment.train.precision, Precision::kF32);
  for (ArmSetup& arm : all) arm.experiment.train.precision = Precision::kAuto;
  for (ArmSetup& arm : all) arm.experiment.eval.precision = Precision::kAuto;
  EXPECT_EQ(error(all), "no error");
  all[0].experiment.train.steps = 9;
  EXPECT_EQ(error(all), refusal("none with train.steps = 3", "train.steps = 9"));
  all = arms();
  all[0].experiment.train.precision = Precision::kBf16;
  EXPECT_EQ(error(all),
            refusal("none with train.precision = \"f32\"", "train.precision = \"bf16\""));
}

// So an arm is dropped.
TEST_F(EarlierComparison, HoldsNoRunWhoseFolderIsGone) {
  const auto all = arms();
  write(Json::array({done(all[0], {1}), done(all[1], {1, 2})}));
  std::filesystem::remove_all(options_.folder / "none#2-seed2");
  EXPECT_EQ(error(all), "no error");
  EXPECT_EQ(error({all[0]}), refusal("the arm none#2", "the arm none"));
  std::filesystem::remove_all(options_.folder / "none#2-seed1");
  EXPECT_EQ(error({all[0]}), "no error");
}

TEST_F(EarlierComparison, KeepsArmsAndSeeds) {
  const auto all = arms();
  write(Json::array({done(all[0], {1}), done(all[1], {1})}));
  EXPECT_EQ(error(arms(test::three_steps(), 1)), refusal("the arm none#2", "the arm none"));
  write(Json::array({done(all[0], {1, 2, 3}), done(all[1], {1, 2})}));
  EXPECT_EQ(error(all), refusal("seeds 2, 3", "seed 1"));
  options_.command = "mneme compare old.toml";
  EXPECT_THAT(error(all), HasSubstr("; name another folder with --run DIR, or give the files as "
                                    "they were"));
}

TEST_F(EarlierComparison, KeepsTunedArms) {
  const auto all = arms();
  ArmSetup tuned = all[0];
  tuned.name = "none,tuned";
  tuned.variant_of = "none";
  tuned.experiment.train.lr = 0.5;
  write(Json::array({done(all[0], {1}), done(tuned, {1})}), Json::parse(R"({"tuning": {"keys": [
          {"key": "train.lr", "values": "1e-3,0.5", "together": false},
          {"key": "train.clip", "values": "1,2", "together": true}]}})"));
  EXPECT_EQ(error(all),
            refusal("--tune train.lr=1e-3,0.5 --tune-together train.clip=1,2", "no --tune"));
  // More trials may choose another value.
  options_.purpose = Purpose::kTuned;
  EXPECT_EQ(error(all), "no error");
  EXPECT_EQ(error({all[1]}), refusal("the arms none, none,tuned", "the arm none#2"));
}

TEST_F(EarlierComparison, KeepsTrials) {
  auto trials = arms();
  for (ArmSetup& trial : trials) trial.variant_of = "none";
  options_.purpose = Purpose::kTrials;
  write(Json::array({done(trials[1], {1})}));
  EXPECT_EQ(error({trials[0]}), refusal("the arm none#2", "the arm none"));
  trials[1].experiment.train.lr = 0.5;
  EXPECT_THAT(error(trials), HasSubstr("none#2 with train.lr = "));
  trials[1].refused = "by a new plugin file";
  EXPECT_EQ(error(trials), "no error");
}

TEST_F(EarlierComparison, KeepsItsInitialWeights) {
  const auto all = arms();
  const Json weights = {{"initial_weights", {{"given", "base"}, {"sha256", "abc"}}}};
  write(Json::array({done(all[0], {1})}), weights);
  EXPECT_EQ(error(all), refusal("--init base of sha256 abc", "no --init"));
  options_.given_weights = "tuned";
  options_.initial_weights_sha256 = "def";
  EXPECT_EQ(error(all), refusal("--init base of sha256 abc", "--init tuned of sha256 def"));
  options_.initial_weights_sha256 = "abc";
  EXPECT_EQ(error(all), "no error");
  write(Json::array({done(all[0], {1})}));
  EXPECT_EQ(error(all), refusal("no --init", "--init tuned of sha256 abc"));
}

TEST_F(EarlierComparison, KeepsThePlanOfItsLooks) {
  const auto all = arms();
  const Json runs = Json::array({done(all[0], {1})});
  write(runs);
  options_.is_until_decided = true;
  options_.seeds = 12;
  EXPECT_THAT(error(all),
              HasSubstr("a comparison of a fixed number of seeds cannot be looked at early "
                        "afterwards, or its error rates do not hold: expected a fixed number of "
                        "seeds, got --until-decided --max-seeds 12; give the same options"));
  write(runs, {{"until_decided", scores::to_json({.max_seeds = 8, .split = "valid"})}});
  EXPECT_THAT(error(all), HasSubstr("looked at after every seed keeps its plan, or its error rates "
                                    "do not hold: expected --until-decided --max-seeds 8, got "
                                    "--until-decided --max-seeds 12; give the same options"));
  options_.is_until_decided = false;
  EXPECT_THAT(error(all), HasSubstr("--max-seeds 8, got a fixed number of seeds"));
  options_.is_until_decided = true;
  options_.seeds = 8;
  EXPECT_EQ(error(all), "no error");
}

TEST_F(EarlierComparison, HoldsNothingThatIsNotDoneOrCannotBeRead) {
  const auto all = arms();
  Json arm = done(all[0], {1, 2});
  for (Json& run : arm.at("runs")) run["state"] = "failed";
  write(Json::array({arm}), Json::parse(R"({"tuning": {"keys": []}})"));
  EXPECT_EQ(error({all[1]}), "no error");
  folder_.write("runs/comparison.json", "{\"arms\": [");
  EXPECT_EQ(error({all[1]}), "no error");
  folder_.write("runs/comparison.json", R"({"arms": [{"runs": [{"state": "done"}]}]})");
  EXPECT_EQ(error({all[1]}), "no error");
  write(Json::array({done(all[0], {1})}), {{"command", 1}});
  EXPECT_EQ(error({all[1]}), "no error");
  // A run whose settings are of another version is made anew.
  write(Json::array({done(all[0], {1})}));
  folder_.write("runs/none-seed1/experiment.toml", "[train]\nof_another_version = 1\n");
  EXPECT_EQ(error(all), "no error");
}

// Before the data are read.
TEST_F(EarlierComparison, IsLookedAtBeforeArmsAreMade) {
  auto all = arms();
  write(Json::array({done(all[0], {1, 2})}));
  all[0].experiment.data.task = config::Task::kText;
  all[0].experiment.data.train = folder_ / "absent.txt";
  EXPECT_THAT(test::error_of([&] { static_cast<void>(prepare(all, options_, loader_)); }),
              HasSubstr("runs that are done there would be left out"));
}

}  // namespace
}  // namespace mneme::compare
