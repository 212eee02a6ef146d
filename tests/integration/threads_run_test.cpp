// The number of threads of a run: chosen once, stored, and kept by what continues it.
#include <chrono>
#include <fstream>
#include <sstream>
#include <thread>

#include "tests/integration/compare_fixture.hpp"
#include "tests/integration/process.hpp"

namespace mneme::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Tests are started with OMP_NUM_THREADS=1; an empty variable names no number.
const ProgramOptions kWithoutVariable{.environment = {"OMP_NUM_THREADS="}, .is_new_program = true};

class ThreadsRun : public CompareRun {
 protected:
  Json info(const std::string& run) const {
    return Json::parse(read_file(folder_ / (run + "/run.json")));
  }
};

TEST_F(ThreadsRun, AreOneForASmallModel) {
  expect_done(
      run_mneme({"train", experiment(tiny()), "--run", file("run"), "--quiet"}, kWithoutVariable));
  EXPECT_EQ(info("run").at("threads"), 1);
}

TEST_F(ThreadsRun, AreKeptByATrainingThatGoesOn) {
  expect_done(
      run_mneme({"train", experiment(tiny()), "--run", file("run"), "--quiet", "--threads", "2"}));
  EXPECT_EQ(info("run").at("threads"), 2);
  const ProgramResult result =
      run_mneme({"train", "--resume", file("run"), "--steps", "8", "--quiet"}, kWithoutVariable);
  expect_done(result);
  EXPECT_THAT(result.err, Not(HasSubstr("threads")));
  EXPECT_EQ(info("run").at("continued").back().at("threads"), 2);
  // Who asks for another number gets it, with a warning.
  const ProgramResult other =
      run_mneme({"train", "--resume", file("run"), "--steps", "10", "--quiet", "--threads", "1"});
  expect_done(other);
  EXPECT_THAT(other.err, HasSubstr("threads was 2 and is 1"));
}

TEST_F(ThreadsRun, AreKeptByAComparisonThatGoesOn) {
  const std::vector<std::string> command{"compare", experiment(tiny()), "--memory",
                                         none_,     "--memory",         cache_,
                                         "--run",   file("c"),          "--quiet"};
  std::vector<std::string> with_two = command;
  with_two.insert(with_two.end(), {"--threads", "2"});
  expect_done(run_mneme(with_two));
  EXPECT_EQ(record("c").at("machine").at("threads"), 2);
  const fs::path metrics = folder_ / "c/none-seed1/metrics.jsonl";
  const auto trained = fs::last_write_time(metrics);
  expect_done(run_mneme(command, kWithoutVariable));
  EXPECT_EQ(record("c").at("machine").at("threads"), 2);
  EXPECT_EQ(fs::last_write_time(metrics), trained);
  EXPECT_FALSE(fs::exists(folder_ / "c/none-seed1-2"));
}

// The environment of a training once it computes.
std::string environment_of(const Process& process, const fs::path& log) {
  for (int i = 0; i < 3000; ++i) {
    std::error_code ignored;
    if (fs::exists(log, ignored) && fs::file_size(log, ignored) > 0) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  std::ifstream in(str("/proc/", process.id(), "/environ"));
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

// libgomp reads its settings while it is loaded (host/thread_wait.cpp).
TEST_F(ThreadsRun, SleepSoonWhenTheyWaitUnlessTheUserSaysOtherwise) {
  const std::string file_name = experiment(small_experiment(1000000));
  {
    const fs::path log = folder_ / "one.log";
    Process process({"train", file_name, "--run", file("one")}, log);
    EXPECT_THAT(environment_of(process, log), HasSubstr("GOMP_SPINCOUNT=2000"));
  }
  const fs::path log = folder_ / "two.log";
  Process process({"train", file_name, "--run", file("two")}, log, {"OMP_WAIT_POLICY=ACTIVE"});
  const std::string environment = environment_of(process, log);
  EXPECT_THAT(environment, HasSubstr("OMP_WAIT_POLICY=ACTIVE"));
  EXPECT_THAT(environment, Not(HasSubstr("GOMP_SPINCOUNT")));
}

}  // namespace
}  // namespace mneme::test
