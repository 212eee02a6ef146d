// mneme compare --tune through the program.
#include <algorithm>
#include <csignal>
#include <optional>
#include <sstream>

#include "tests/integration/compare/compare_fixture.hpp"
#include "tests/integration/process.hpp"

namespace mneme::test {
namespace {

using ::testing::HasSubstr;

class TunedRun : public CompareRun {
 protected:
  std::vector<std::string> names(const Json& record) const {
    std::vector<std::string> out;
    for (const Json& arm : record.at("arms")) out.push_back(arm.at("name").get<std::string>());
    return out;
  }
  // The loss on valid that a trial's evaluation states.
  double loss_of(const std::string& run) const {
    for (const auto& entry :
         fs::directory_iterator(file("comparison/tuning/" + run + "/evaluations"))) {
      if (!entry.is_directory()) continue;
      EXPECT_TRUE(entry.path().filename().string().starts_with("valid")) << entry.path();
      return Json::parse(read_file(entry.path() / "evaluation.json"))["result"]["loss"];
    }
    ADD_FAILURE() << run << " has no evaluation";
    return 0.0;
  }
  // The same after so many steps; none = it was not evaluated then.
  std::optional<double> loss_at(const std::string& run, int step) const {
    for (const auto& entry :
         fs::directory_iterator(file("comparison/tuning/" + run + "/evaluations"))) {
      const std::string name = entry.path().filename().string();
      if (!entry.is_directory() || !name.starts_with(str("valid-step0000000", step))) continue;
      return Json::parse(read_file(entry.path() / "evaluation.json"))["result"]["loss"];
    }
    return std::nullopt;
  }
};

TEST_F(TunedRun, TakesTheValueOfTheLowestLossAndComparesItOnTest) {
  expect_done(compare({"--tune", "train.lr=1e-4,1e-2", "--quiet"}));
  const Json trials = record("comparison/tuning");
  EXPECT_EQ(names(trials), (std::vector<std::string>{"none,lr=1e-4", "none,lr=1e-2",
                                                     "cache,lr=1e-4", "cache,lr=1e-2"}));
  EXPECT_EQ(trials.at("seeds"), Json::array({1001}));
  EXPECT_EQ(trials.at("splits"), Json::array({"valid"}));
  const Json all = record();
  EXPECT_EQ(names(all), (std::vector<std::string>{"none", "cache", "none,tuned", "cache,tuned"}));
  EXPECT_EQ(all.at("splits"), Json::array({"valid", "test"}));
  EXPECT_EQ(all.at("seeds"), Json::array({1}));
  EXPECT_EQ(all.at("tuning").at("keys").at(0).at("key"), "train.lr");
  for (const std::string arm : {"none", "cache"}) {
    const bool is_first = loss_of(arm + ",lr=1e-4-seed1001") <= loss_of(arm + ",lr=1e-2-seed1001");
    const Json& tuned = all.at("arms").at(arm == "none" ? 2 : 3);
    EXPECT_EQ(tuned.at("variant_of"), arm);
    EXPECT_EQ(tuned.at("overrides"), Json::array({is_first ? "train.lr=1e-4" : "train.lr=1e-2"}));
    EXPECT_EQ(tuned.at("runs").at(0).at("state"), "done");
    // The arms as they are do not change.
    EXPECT_EQ(all.at("arms").at(arm == "none" ? 0 : 1).at("overrides"), Json::array());
  }
  EXPECT_TRUE(fs::exists(file("comparison/cache,tuned-seed1/run.json")));
  expect_verified();
}

// The value that is left is the arm's own: nothing is trained twice.
TEST_F(TunedRun, GoesOnWithoutAValueThatIsRefused) {
  const ProgramResult result =
      run_mneme({"compare", experiment(tiny()), "--memory", cache_, "--run", file("comparison"),
                 "--threads", "1", "--tune", "tier.0.rows=-4,16"});
  expect_done(result);
  EXPECT_THAT(result.err, HasSubstr("cache,rows=-4 is refused: "));
  EXPECT_THAT(result.err, HasSubstr("tuned cache: memory.tier.0.rows = 16 "));
  EXPECT_THAT(result.err, HasSubstr("cache,tuned has the values of cache, and its runs\n"));
  EXPECT_THAT(result.err, HasSubstr("cache-seed1 is done (1 of 1 runs)"));
  const Json trials = record("comparison/tuning");
  EXPECT_EQ(trials.at("arms").at(0).at("runs").at(0).at("state"), "failed");
  EXPECT_EQ(trials.at("arms").at(1).at("runs").at(0).at("state"), "done");
  const Json all = record();
  EXPECT_EQ(names(all), (std::vector<std::string>{"cache", "cache,tuned"}));
  EXPECT_EQ(all.at("arms").at(1).at("runs"), all.at("arms").at(0).at("runs"));
  EXPECT_FALSE(fs::exists(file("comparison/cache,tuned-seed1")));
  const Json verdict = Json::parse(read_file(folder_ / "comparison/report/report.json"))["verdict"];
  EXPECT_THAT(verdict.dump(),
              HasSubstr("These are its own values: the runs of cache,tuned are those of cache."));
  expect_verified();
}

// A diverged training is a trial that failed; where all have, the arm stays as it is.
TEST_F(TunedRun, TellsAnArmOfWhichAllTrialsDiverge) {
  const ProgramResult result = compare({"--tune", "train.lr=1e30,1e31"});
  EXPECT_EQ(result.exit_code, 1) << result.err;
  EXPECT_THAT(result.err, HasSubstr("the training reached numbers that are not finite"));
  EXPECT_THAT(result.err, HasSubstr("tuned cache: no trial can be taken"));
  EXPECT_EQ(names(record()), (std::vector<std::string>{"none", "cache"}));
}

TEST_F(TunedRun, MayShareAValue) {
  expect_done(
      compare({"--tune-together", "train.lr=log:1e-4:1e-2", "--tune-trials", "2", "--quiet"}));
  const Json arms = record().at("arms");
  ASSERT_EQ(arms.size(), 4U);
  EXPECT_EQ(arms.at(2).at("overrides"), arms.at(3).at("overrides"));
  EXPECT_EQ(arms.at(2).at("overrides").size(), 1U);
}

// Killed in a rung and while it compares: the same command ends as if nothing had happened.
TEST_F(TunedRun, IsContinuedAfterAKill) {
  const std::vector<std::string> more{
      "--tune", "train.lr=1e-3,1e-2",  "--tune-halving", "100", "--set",  "train.steps=200",
      "--set",  "train.save_every=20", "--diagnostics",  "0",   "--quiet"};
  expect_done(compare(more, "whole"));
  for (const char* const run : {"tuning/cache,lr=1e-3-seed1001", "none,tuned-seed1"}) {
    Process process(arguments(more), folder_ / "log");
    EXPECT_TRUE(has_begun(run)) << read_file(folder_ / "log");
    process.kill();
    static_cast<void>(process.wait());
    ASSERT_TRUE(are_locks_free());
  }
  expect_done(compare(more));
  EXPECT_EQ(numbers("comparison/report/report.json"), numbers("whole/report/report.json"));
}

// By the losses that are stored.
TEST_F(TunedRun, HalvesTrials) {
  const std::vector<std::string> command{"compare",        experiment(tiny()),
                                         "--memory",       none_,
                                         "--run",          file("comparison"),
                                         "--threads",      "1",
                                         "--tune",         "train.lr=1e-4,1e-3,1e-2",
                                         "--tune-halving", "2",
                                         "--jobs",         "2",
                                         "--diagnostics",  "0"};
  const ProgramResult first = run_mneme(command);
  expect_done(first);
  EXPECT_THAT(first.err, HasSubstr("rung 1 of 2: 3 trials an arm, 2 steps\n"));
  EXPECT_THAT(first.err, HasSubstr("rung 2 of 2: 2 trials an arm, 4 steps\n"));
  const Json tuning = record().at("tuning");
  EXPECT_EQ(tuning.at("rungs"), Json::parse(R"([{"trials": 3, "steps": 2},
                                                {"trials": 2, "steps": 4}])"));
  std::vector<std::pair<double, std::string>> after_two, after_four;
  for (const std::string lr : {"1e-4", "1e-3", "1e-2"}) {
    const std::string run = "none,lr=" + lr + "-seed1001";
    after_two.emplace_back(loss_at(run, 2).value_or(0.0), lr);
    if (const auto loss = loss_at(run, 4)) after_four.emplace_back(*loss, lr);
    EXPECT_FALSE(loss_at(run, 6)) << run;
  }
  std::ranges::sort(after_two);
  std::ranges::sort(after_four);
  ASSERT_EQ(after_four.size(), 2U);
  for (const auto& [loss, lr] : after_four) EXPECT_NE(lr, after_two.back().second);
  EXPECT_EQ(record().at("arms").at(1).at("overrides"),
            Json::array({"train.lr=" + after_four.front().second}));
}

TEST_F(TunedRun, DryRunListsTrialsAndTheirTime) {
  const ProgramResult result = compare({"--tune", "train.lr=1e-3,1e-2", "--tune-halving", "2",
                                        "--dry-run", "--json", file("plan.json")});
  expect_done(result);
  const std::string end = result.out.substr(result.out.find("with the trials: "));
  EXPECT_THAT(end, HasSubstr("\n--tune-halving 2: values are chosen after 2 of 6 steps; "));
  std::istringstream lines(end);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80U) << line;
  for (const char* const text :
       {"dry run of the trials of ", "cache,lr=1e-3", "cache,tuned", "with the trials: "}) {
    EXPECT_THAT(result.out, HasSubstr(text));
  }
  EXPECT_FALSE(fs::exists(file("comparison")));
  const Json plan = Json::parse(read_file(folder_ / "plan.json"));
  EXPECT_EQ(plan.at("arms").size(), 4U);
  EXPECT_EQ(plan.at("trials").at("arms").size(), 4U);
  EXPECT_NEAR(plan.at("seconds_with_trials").get<double>(),
              plan.at("seconds").get<double>() + plan.at("trials").at("seconds").get<double>(),
              1e-9);
}

TEST_F(TunedRun, RefusesABaselineThatIsNeitherArmNorTunedArm) {
  expect_refusal(compare({"--tune", "train.lr=1e-3,1e-2", "--baseline", "cach"}), 2,
                 {"--baseline", "\"cache,tuned\""});
}

}  // namespace
}  // namespace mneme::test
