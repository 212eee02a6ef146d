// mneme compare and train with memories whose numbers say nothing, and compare --dry-run.
#include "tests/integration/compare/compare_fixture.hpp"

namespace mneme::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class CheckedRun : public CompareRun {
 protected:
  std::string flawed(const std::string& fault) const {
    return folder_
        .write(fault + ".toml",
               memory_with("test_flawed", fs::path(MNEME_BINARY_DIR) / "tests" / "flawed_plugins",
                           "fault = \"" + fault + "\""))
        .string();
  }
};

// Each is named before anything trains, in verdict, tables and report, and the status is 1.
TEST_F(CheckedRun, NamesMemoriesWhoseNumbersSayNothing) {
  const std::vector<std::string> memories = {
      "--memory", flawed("looks_ahead"), "--memory", flawed("kept_over_reset"),
      "--memory", flawed("lanes_mixed"), "--json",   file("out.json")};
  const ProgramResult result = compare(memories);
  EXPECT_EQ(result.exit_code, 1) << result.err;
  const std::size_t trained = result.err.find("is done (1 of 5 runs)");
  ASSERT_NE(trained, std::string::npos);
  const std::string before = result.err.substr(0, trained);
  EXPECT_THAT(before,
              AllOf(HasSubstr("looks_ahead: its memory is faulty"), HasSubstr("not causal"),
                    HasSubstr("kept_over_reset: its memory is faulty"),
                    HasSubstr("keeps state over a reset"),
                    HasSubstr("lanes_mixed: its memory is faulty"), HasSubstr("lanes touch")));
  EXPECT_THAT(before, AllOf(Not(HasSubstr("none: its")), Not(HasSubstr("cache: its"))));
  EXPECT_THAT(result.out, AllOf(HasSubstr("looks_ahead is not causal"),
                                HasSubstr("kept_over_reset keeps state over a reset"),
                                HasSubstr("lanes_mixed has lanes that touch")));
  EXPECT_THAT(result.out, Not(HasSubstr("looks_ahead has a lower")));
  for (const char* const name : {"report.txt", "report.tex", "report.md", "index.html"}) {
    EXPECT_THAT(read_file(folder_ / "comparison" / "report" / name), HasSubstr("not causal"));
  }
  const Json arms = record().at("arms");
  EXPECT_EQ(arms.at(1).at("checks").at("checks").at(0).at("result"), "holds");
  EXPECT_EQ(arms.at(2).at("checks").at("checks").at(0).at("result"), "fails");
  // So they are when everything is done, and where runs are compared without training.
  EXPECT_EQ(compare(memories).exit_code, 1);
  const ProgramResult runs =
      run_mneme({"compare", file("comparison/none-seed1"), file("comparison/looks_ahead-seed1")});
  EXPECT_EQ(runs.exit_code, 1);
  EXPECT_THAT(runs.out, HasSubstr("looks_ahead is not causal"));
}

// With a gate that starts closed nothing is seen before the training.
TEST_F(CheckedRun, NamesALeakThatOnlyTrainedWeightsShow) {
  const ProgramResult result = compare({"--memory", flawed("looks_ahead_when_trained"), "--quiet"});
  EXPECT_EQ(result.exit_code, 1) << result.err;
  EXPECT_THAT(result.err, HasSubstr("its memory is faulty, and its losses say nothing: not causal "
                                    "(with the weights of step "));
  EXPECT_THAT(result.out, HasSubstr("looks_ahead_when_trained is not causal"));
  EXPECT_THAT(result.out, HasSubstr("after training from seed 1"));
  EXPECT_EQ(record().at("arms").at(2).at("checks").at("checks").at(0).at("result"), "holds");
}

TEST_F(CheckedRun, SaysNothingOfMemoriesThatPass) {
  const ProgramResult result = compare({"--quiet"});
  expect_done(result);
  EXPECT_EQ(result.err, "");
  EXPECT_THAT(result.out, Not(HasSubstr("checked")));
  const Json checks = Json::parse(read_file(folder_ / "comparison/cache-seed1/checks.json"));
  EXPECT_TRUE(checks.at("before").is_null());  // comparison.json has them
  EXPECT_EQ(checks.at("after").at("checks").at(0).at("result"), "holds");
}

// A suite ends with the same status.
TEST_F(CheckedRun, EndsASuiteWithStatus1) {
  flawed("looks_ahead");
  folder_.write("motif.toml", tiny());
  folder_.write("suite.toml",
                "seeds = 1\n[[memory]]\nfile = \"none.toml\"\n[[memory]]\nfile = "
                "\"looks_ahead.toml\"\n[[task]]\nexperiment = \"motif.toml\"\n");
  const ProgramResult result = run_mneme({"compare", "--suite", file("suite.toml"), "--run",
                                          file("suite"), "--threads", "1", "--quiet"});
  EXPECT_EQ(result.exit_code, 1) << result.err;
  EXPECT_THAT(result.out, HasSubstr("looks_ahead is faulty (not causal)"));
}

TEST_F(CheckedRun, TrainWarns) {
  const ProgramResult before =
      run_mneme({"train", experiment(tiny()), "--memory", flawed("looks_ahead"), "--run",
                 file("run"), "--threads", "1", "--quiet"});
  EXPECT_EQ(before.exit_code, 0) << before.err;
  EXPECT_THAT(before.err, HasSubstr("not causal: in training, segment 0"));
  EXPECT_THAT(before.err, HasSubstr("not causal (with the weights of step "));
  const ProgramResult after =
      run_mneme({"train", experiment(tiny()), "--memory", flawed("looks_ahead_when_trained"),
                 "--run", file("trained"), "--threads", "1", "--quiet"});
  EXPECT_EQ(after.exit_code, 0) << after.err;
  EXPECT_THAT(after.err, Not(HasSubstr("not causal:")));
  EXPECT_THAT(after.err, HasSubstr("not causal (with the weights of step "));
  const ProgramResult checked =
      run_mneme({"train", experiment(tiny()), "--memory", flawed("looks_ahead"), "--run",
                 file("checked"), "--threads", "1", "--quiet", "--checked"});
  EXPECT_THAT(checked.err, Not(HasSubstr("not causal:")));
}

// --- compare --dry-run ---

TEST_F(CheckedRun, DryRunTellsTheCostAndWritesNothing) {
  const ProgramResult result = compare({"--memory", flawed("looks_ahead"), "--dry-run", "--seeds",
                                        "3", "--json", file("plan.json")});
  expect_done(result);
  for (const char* const text :
       {"dry run of", "parameters", "FLOPs a token", "evaluations", "disk a run",
        "all runs: ", "are free", "looks_ahead: its memory is faulty"}) {
    EXPECT_THAT(result.out, HasSubstr(text));
  }
  EXPECT_THAT(result.err, HasSubstr("measuring looks_ahead, arm 3 of 3, "));
  EXPECT_FALSE(fs::exists(file("comparison")));
  const Json plan = Json::parse(read_file(folder_ / "plan.json"));
  EXPECT_EQ(plan.at("format"), "mneme-compare-dry-run");
  EXPECT_EQ(plan.at("arms").size(), 3U);
  EXPECT_EQ(plan.at("arms").at(1).at("runs"), 3);
  EXPECT_GT(plan.at("arms").at(1).at("state_bytes").get<double>(), 0.0);
  EXPECT_GT(plan.at("seconds").get<double>(), 0.0);
  EXPECT_GT(plan.at("disk_bytes").get<std::int64_t>(), 0);
  EXPECT_EQ(plan.at("arms").at(2).at("checks").at("checks").at(0).at("result"), "fails");
}

TEST_F(CheckedRun, DryRunOfASuiteTellsOfEveryTask) {
  write_suite("", "train.lr=1e-3");
  const ProgramResult result =
      run_mneme({"compare", "--suite", file("suite.toml"), "--run", file("suite"), "--threads", "1",
                 "--dry-run", "--json", "-"});
  expect_done(result);
  const Json plan = Json::parse(result.out);
  EXPECT_EQ(plan.at("format"), "mneme-suite-dry-run");
  ASSERT_EQ(plan.at("tasks").size(), 2U);
  EXPECT_EQ(plan.at("tasks").at(1).at("task"), "short");
  EXPECT_FALSE(fs::exists(file("suite")));
}

TEST_F(CheckedRun, DryRunIsNothingForRunFolders) {
  fs::create_directories(folder_ / "run");
  expect_refusal(run_mneme({"compare", file("run"), "--dry-run"}), 2,
                 {"run folders are compared as they are", "--dry-run"});
}

}  // namespace
}  // namespace mneme::test
