// The number of threads of a run: chosen once, stored, and kept by what continues it.
#include "tests/integration/compare/compare_fixture.hpp"

namespace mneme::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Tests are started with OMP_NUM_THREADS=1; an empty variable names no number. libgomp says so.
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

}  // namespace
}  // namespace mneme::test
