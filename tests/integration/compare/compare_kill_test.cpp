// Comparisons that are killed (SIGKILL): the same command ends as if nothing had happened.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <functional>

#include "tests/integration/compare/compare_fixture.hpp"
#include "tests/integration/process.hpp"

namespace mneme::test {
namespace {

class CompareKill : public CompareRun {
 protected:
  // Starts the comparison, kills it and its processes as soon as `is_time`, and says whether it was
  // still working then.
  bool kill_when(const std::function<bool()>& is_time) const {
    Process process(arguments(settings()), folder_ / "log");
    while (process.is_running() && !is_time()) ::usleep(200);
    const bool was_running = process.is_running();
    const pid_t child = was_running ? child_of(process.id()) : 0;
    process.kill();
    if (child != 0) ::kill(child, SIGKILL);  // else it would get SIGTERM and save
    EXPECT_TRUE(are_locks_free());
    return was_running;
  }
  // The same command as those that were killed; what it ends with is what one ends with that was
  // never killed.
  void expect_the_same_end() const {
    expect_done(run_mneme(arguments(settings(), "whole")));
    expect_done(run_mneme(arguments(settings())));
    EXPECT_EQ(numbers("comparison/report/report.json"), numbers("whole/report/report.json"));
    for (const char* const name : {"results.csv", "differences.csv", "index.html"}) {
      EXPECT_TRUE(fs::exists(file(str("comparison/report/", name)))) << name;
    }
    EXPECT_EQ(leftovers(), std::vector<std::string>{});
  }
  // Files in the comparison that an unfinished write has left.
  std::vector<std::string> leftovers() const {
    std::vector<std::string> out;
    for (const auto& entry : fs::recursive_directory_iterator(file("comparison"))) {
      if (entry.path().filename().string().find(".tmp") != std::string::npos)
        out.push_back(entry.path().string());
    }
    return out;
  }
  bool is_there(const std::string& path) const { return fs::exists(file("comparison/" + path)); }
  // Whether the run has done its last step.
  bool has_trained(const std::string& run) const {
    return is_there(run + "/metrics.jsonl") &&
           read_file(file("comparison/" + run + "/metrics.jsonl")).find("\"step\":60,") !=
               std::string::npos;
  }
  bool is_evaluated(const std::string& run) const {
    std::error_code ignored;
    for (const auto& entry :
         fs::directory_iterator(file("comparison/" + run + "/evaluations"), ignored)) {
      if (entry.path().filename().string().starts_with("valid-step00000060")) return true;
    }
    return false;
  }

 private:
  static std::vector<std::string> settings() {
    return {"--set",  "train.steps=60",    "--set", "train.save_every=20",
            "--set",  "train.log_every=1", "--set", "eval.steps=300",
            "--quiet"};
  }
};

// Killed at any moment, with its processes: the same command ends as if nothing had happened.
TEST_F(CompareKill, IsContinuedAfterAKill) {
  const std::vector<std::string> more{
      "--set",  "train.steps=200", "--set",  "train.save_every=20", "--jobs", "2",
      "--json", file("end.json"),  "--quiet"};
  expect_done(compare({"--set", "train.steps=200", "--set", "train.save_every=20", "--jobs", "2",
                       "--json", file("whole.json"), "--quiet"},
                      "whole"));
  for (const int milliseconds : {300, 900, 1500}) {
    Process process(arguments(more), folder_ / "log");
    std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
    process.kill();
    static_cast<void>(process.wait());
  }
  // The processes of the last one get SIGTERM and save.
  ASSERT_TRUE(are_locks_free());
  const ProgramResult end = run_mneme(arguments(more));
  expect_done(end);
  EXPECT_EQ(numbers("end.json"), numbers("whole.json"));
}

// A step takes longer than the pause between two lines of progress, which nobody reads any more.
TEST_F(CompareKill, SavesASlowStepThoughItIsKilled) {
  Process process(arguments({"--set", "train.segment=512", "--set", "train.lanes=48", "--set",
                             "train.steps=100000", "--set", "train.save_every=100000", "--set",
                             "train.log_every=1", "--quiet"}),
                  folder_ / "log");
  ASSERT_TRUE(has_begun("none-seed1")) << read_file(folder_ / "log");
  process.kill();
  ASSERT_TRUE(are_locks_free());
  EXPECT_FALSE(fs::is_empty(file("comparison/none-seed1/checkpoints")));
}

TEST_F(CompareKill, IsContinuedAfterAKillInAnEvaluation) {
  for (const std::string run : {"none-seed1", "cache-seed1"}) {
    EXPECT_TRUE(kill_when([&] { return has_trained(run); })) << read_file(folder_ / "log");
    EXPECT_FALSE(is_evaluated(run));
  }
  expect_the_same_end();
}

TEST_F(CompareKill, IsContinuedAfterAKillWhileTheReportIsWritten) {
  const bool was_running = kill_when([&] { return is_there("report/report.json"); });
  EXPECT_TRUE(was_running && !is_there("report/index.html")) << read_file(folder_ / "log");
  expect_the_same_end();
}

}  // namespace
}  // namespace mneme::test
