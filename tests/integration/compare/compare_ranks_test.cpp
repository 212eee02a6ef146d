// Comparisons that several ranks share, as mpirun starts them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <set>

#include "tests/integration/compare/compare_fixture.hpp"
#include "tests/integration/process.hpp"

namespace mneme::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class CompareRanks : public CompareRun {
 protected:
  void SetUp() override {
    CompareRun::SetUp();
    if (!has_mpirun()) GTEST_SKIP() << "there is no mpirun";
  }

  static std::string on(int ranks, const std::vector<std::string>& arguments) {
    std::string text = str("-n ", ranks, ' ', MNEME_PROGRAM);
    for (const std::string& word : arguments) text += ' ' + shell_word(word);
    return text;
  }
  static ProgramResult run_on(int ranks, const std::vector<std::string>& arguments) {
    return run_shell(mpirun() + on(ranks, arguments));
  }

  // Trainings that take a few seconds.
  static std::vector<std::string> long_settings(const std::string& json) {
    return {"--set", "train.steps=1000",  "--set",  "train.save_every=100",
            "--set", "train.log_every=1", "--json", json};
  }
  // Starts mpirun with two ranks and returns when both trainings are at work: its process.
  [[nodiscard]] pid_t start() const {
    const std::string command = mpirun() + on(2, arguments(long_settings(file("end.json"))));
    const ProgramResult result =
        run_shell(str(command, " >", file("log"), " 2>&1 </dev/null & echo $!"));
    EXPECT_TRUE(has_begun("none-seed1")) << read_file(folder_ / "log");
    EXPECT_TRUE(has_begun("cache-seed1")) << read_file(folder_ / "log");
    return static_cast<pid_t>(std::stol(result.out));
  }
  // True when every process that works in the test's folder has ended.
  [[nodiscard]] bool is_all_gone() const {
    for (int i = 0; i < 3000; ++i) {
      if (processes_with(folder_.path().string()).empty()) return true;
      ::usleep(20'000);
    }
    return false;
  }
  // The same command ends as one that was not interrupted.
  void expect_the_same_end() const {
    expect_done(compare(long_settings(file("whole.json")), "whole"));
    const ProgramResult end = run_on(2, arguments(long_settings(file("end.json"))));
    EXPECT_EQ(end.exit_code, 0) << end.out;
    EXPECT_EQ(numbers("end.json"), numbers("whole.json"));
  }
  // The only file in a folder.
  [[nodiscard]] std::string losses(const std::string& run) const {
    for (const auto& entry : fs::directory_iterator(file(run + "/evaluations"))) {
      if (entry.is_directory()) return read_file(entry.path() / "nll.safetensors");
    }
    return "none";
  }
};

// Ranks, jobs and both give the table of one process, bit for bit.
TEST_F(CompareRanks, GiveTheTableOfOneProcess) {
  const auto with = [&](const std::string& name, const std::vector<std::string>& more = {}) {
    std::vector<std::string> all = {"--seeds", "2", "--json", file(name + ".json")};
    all.insert(all.end(), more.begin(), more.end());
    return arguments(all, name);
  };
  expect_done(run_mneme(with("one")));
  expect_done(run_mneme(with("jobs", {"--jobs", "2"})));
  const ProgramResult ranks = run_on(2, with("ranks"));
  EXPECT_EQ(ranks.exit_code, 0) << ranks.out;
  const ProgramResult both = run_on(2, with("both", {"--jobs", "2"}));
  EXPECT_EQ(both.exit_code, 0) << both.out;

  const Json expected = record("one");
  for (const std::string name : {"jobs", "ranks", "both"}) {
    EXPECT_EQ(numbers(name + ".json"), numbers("one.json")) << name;
    EXPECT_EQ(read_file(file(name + "/report/differences.csv")),
              read_file(file("one/report/differences.csv")));
    Json made = record(name);
    made["command"] = expected.at("command");
    EXPECT_EQ(made, expected) << name;
    for (const std::string run : {"none-seed1", "cache-seed1", "none-seed2", "cache-seed2"}) {
      EXPECT_EQ(losses(str(name, '/', run)), losses("one/" + run)) << name << ' ' << run;
    }
  }
  // One display and one table.
  for (const std::string text : {"cache-seed2 is done", "(4 of 4 runs)", "Differences to none"}) {
    const std::size_t at = ranks.out.find(text);
    ASSERT_NE(at, std::string::npos) << ranks.out;
    EXPECT_EQ(ranks.out.find(text, at + 1), std::string::npos) << ranks.out;
  }

  // Everything is done already: without ranks, and with others.
  expect_done(run_mneme(with("ranks")));
  EXPECT_EQ(numbers("ranks.json"), numbers("one.json"));
  const ProgramResult three = run_on(3, with("one"));
  EXPECT_EQ(three.exit_code, 0) << three.out;
  EXPECT_FALSE(fs::exists(file("one/none-seed1-2")));
}

TEST_F(CompareRanks, ShareTheTasksOfASuite) {
  write_suite("", "train.steps=3");
  const auto suite = [&](const std::string& name) {
    return std::vector<std::string>{"compare", "--suite",  file("suite.toml"),
                                    "--run",   file(name), "--threads",
                                    "1",       "--json",   file(name + ".json")};
  };
  expect_done(run_mneme(suite("one")));
  const ProgramResult ranks = run_on(2, suite("ranks"));
  EXPECT_EQ(ranks.exit_code, 0) << ranks.out;
  EXPECT_EQ(read_file(file("ranks.json")), read_file(file("one.json")));
  EXPECT_EQ(read_file(file("ranks/suite.csv")), read_file(file("one/suite.csv")));
}

// One rank is asked, both stop and save.
TEST_F(CompareRanks, StopTogetherAndGoOn) {
  const pid_t launcher = start();
  ::kill(child_of(launcher), SIGTERM);
  EXPECT_TRUE(is_all_gone());
  EXPECT_THAT(read_file(folder_ / "log"),
              AllOf(HasSubstr("stopped by SIGTERM: 0 of 2 runs are done, the others are saved"),
                    Not(HasSubstr("mneme: error"))));
  for (const Json& arm : record().at("arms")) {
    EXPECT_EQ(arm.at("runs").at(0).at("state"), "waiting");
  }
  expect_the_same_end();
}

// mpirun ends its ranks a second later.
TEST_F(CompareRanks, LeaveNoProcessAfterASignalToTheLauncher) {
  ::kill(start(), SIGTERM);
  EXPECT_TRUE(is_all_gone());
  EXPECT_TRUE(are_locks_free());
}

TEST_F(CompareRanks, LeaveNoProcessWhenOneIsKilled) {
  ::kill(child_of(start()), SIGKILL);
  EXPECT_TRUE(is_all_gone());
  expect_the_same_end();
}

TEST_F(CompareRanks, LeaveNoProcessWhenTheLauncherIsKilled) {
  ::kill(start(), SIGKILL);
  EXPECT_TRUE(is_all_gone());
  EXPECT_TRUE(are_locks_free());
}

// Trainings cannot write into their folders any more, and rank 0 cannot write comparison.json.
TEST_F(CompareRanks, EndWithAnErrorOfRank0) {
  const pid_t launcher = start();
  ASSERT_GT(launcher, 0);
  fs::rename(file("comparison"), file("moved"));
  folder_.write("comparison", "a file is in the place of the folder");
  EXPECT_TRUE(is_all_gone());
  const std::string log = read_file(folder_ / "log");
  EXPECT_THAT(log, AllOf(HasSubstr("mneme: error: "), HasSubstr("comparison.json")));
  EXPECT_THAT(log, Not(HasSubstr("rank 1")));
}

TEST_F(CompareRanks, RefuseDifferentCommands) {
  const ProgramResult result = run_shell(
      str(mpirun(), on(1, arguments({})), " : ", on(1, arguments({"--set", "train.steps=7"}))));
  EXPECT_EQ(result.exit_code, 2) << result.out;
  EXPECT_THAT(result.out, HasSubstr("mneme: error: rank 1 of 2 ("));
  EXPECT_THAT(result.out, HasSubstr("it compares something else than rank 0"));
  EXPECT_FALSE(fs::exists(file("comparison")));
}

}  // namespace
}  // namespace mneme::test
