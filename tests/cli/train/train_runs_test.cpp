// mneme train: names of run folders, runs that are done, runs that are extended.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "host/base/file/file.hpp"
#include "host/base/text.hpp"
#include "tests/cli/program.hpp"

namespace mneme::test {
namespace {

namespace fs = std::filesystem;

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class TrainRuns : public CliTest {
 protected:
  // A run of the tiny experiment's 6 steps.
  std::string done(const std::string& more = "") const {
    std::string text = tiny();
    text.replace(text.find("lr = 3e-3"), 9, "lr = 3e-3\n" + more);
    expect_done(run_mneme({"train", experiment(text), "--run", file("run"), "--quiet"}));
    return file("run");
  }
};

TEST_F(TrainRuns, OfOneNameAtOnceGetFoldersOfTheirOwn) {
  const std::string path = experiment(tiny());
  std::vector<ProgramResult> results(3);
  std::vector<std::thread> threads;
  for (ProgramResult& result : results) {
    threads.emplace_back([&] {
      result = run_mneme({"train", path, "--quiet"}, {.folder = folder_.path()});
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::vector<std::string> runs;
  for (const ProgramResult& result : results) {
    expect_done(result);
    runs.push_back(result.out.substr(result.out.find("runs/")));
  }
  std::ranges::sort(runs);
  EXPECT_EQ(std::ranges::adjacent_find(runs), runs.end()) << runs.front();
  for (const char* name : {"experiment", "experiment-2", "experiment-3"}) {
    EXPECT_TRUE(fs::exists(folder_ / "runs" / name / "experiment.toml")) << name;
  }
}

TEST_F(TrainRuns, WithoutAPlaceForTheirFolderSaySo) {
  folder_.write("runs", "a file");
  expect_refusal(run_mneme({"train", experiment(tiny())}, {.folder = folder_.path()}), 2,
                 {"--run runs/experiment: cannot be made", "/runs, which is no folder"});
}

TEST_F(TrainRuns, ThatAreDoneSaySo) {
  const std::string run = done();
  const ProgramResult again = run_mneme({"train", "--resume", run, "--json", file("again.json")});
  expect_done(again);
  EXPECT_THAT(again.out, HasSubstr("nothing to train: " + run + " was done after 6 steps"));
  EXPECT_THAT(again.out, HasSubstr("mneme train --resume " + run + " --steps N extends it"));
  EXPECT_EQ(Json::parse(read_file(file("again.json"))).at("trained_steps"), 0);
}

TEST_F(TrainRuns, AreExtendedWithTheScheduleOfTheirNewLength) {
  const std::string run = done();
  const ProgramResult more = run_mneme({"train", "--resume", run, "--steps", "12"});
  expect_done(more);
  // Half of a cosine from 3e-3 to 0.
  EXPECT_THAT(more.err, HasSubstr("extended to 12 steps: the schedule \"cosine\" is that of a run "
                                  "of this length, and goes on at 0.0015"));
  EXPECT_THAT(more.out, HasSubstr("trained 12 steps"));
  const std::string log = read_file(fs::path(run) / "log.txt");
  EXPECT_THAT(log, AllOf(StartsWith("20"), HasSubstr(str("Z info step 6: saved ", run)),
                         HasSubstr("Z info extended to 12 steps"),
                         HasSubstr(str("Z info step 12: saved ", run))));
  EXPECT_THAT(read_file(fs::path(run) / "experiment.toml"), HasSubstr("\nsteps = 12\n"));
  const ProgramResult again = run_mneme({"train", "--resume", run});
  expect_done(again);
  EXPECT_THAT(again.out, HasSubstr("was done after 12 steps"));
}

TEST_F(TrainRuns, SayHowTheirLengthIsChanged) {
  const std::string run = done();
  expect_refusal(run_mneme({"train", "--resume", run, "--set", "train.steps=12"}), 2,
                 {"which --steps N makes longer; leave --set out"});
  std::string text = read_file(fs::path(run) / "experiment.toml");
  text.replace(text.find("\nsteps = 6\n"), 11, "\nsteps = 8\n");
  folder_.write("run/experiment.toml", text);
  const ProgramResult edited = run_mneme({"train", "--resume", run});
  expect_done(edited);
  EXPECT_THAT(edited.err,
              HasSubstr("the checkpoint was saved with train.steps = 6, experiment.toml "
                        "has train.steps = 8: the run goes on as with --steps"));
}

// By the schedule of the whole run, to the numbers of one that was not stopped.
TEST_F(TrainRuns, StopAtAStepAndGoOn) {
  const auto losses_of = [](const fs::path& folder) {
    std::vector<std::string> out;
    std::istringstream lines(read_file(folder / "metrics.jsonl"));
    for (std::string line; std::getline(lines, line);) {
      const Json json = Json::parse(line);
      out.push_back(str(json.at("kind").dump(), json.at("step").dump(), ' ',
                        json.value("result", json).at("loss").dump()));
    }
    return out;
  };
  const std::vector<std::string> whole = losses_of(done());
  const std::string run = file("cut");
  const ProgramResult first =
      run_mneme({"train", experiment(tiny()), "--run", run, "--stop-at", "4"});
  expect_done(first);
  const std::string where = run + " is trained to step 4 of 6; continue with mneme train --resume ";
  EXPECT_EQ(first.out, where + run + "\n");
  EXPECT_TRUE(fs::exists(fs::path(run) / "checkpoints/step_00000004.safetensors"));
  EXPECT_THAT(read_file(fs::path(run) / "experiment.toml"), HasSubstr("\nsteps = 6\n"));
  const ProgramResult again = run_mneme({"train", "--resume", run, "--stop-at", "3"});
  expect_done(again);
  EXPECT_EQ(again.out, "nothing to train: " + where + run + "\n");
  const ProgramResult rest = run_mneme({"train", "--resume", run, "--stop-at", "9"});
  expect_done(rest);
  EXPECT_THAT(rest.out, HasSubstr("trained 6 steps"));
  EXPECT_GE(whole.size(), 2U);
  EXPECT_EQ(losses_of(run), whole);
}

TEST_F(TrainRuns, AreNotExtendedBackwards) {
  const std::string run = done();
  expect_refusal(run_mneme({"train", "--resume", run, "--steps", "6"}), 2,
                 {"--steps: the run would not continue", "more than the 6 steps", "got 6"});
  EXPECT_THAT(read_file(fs::path(run) / "experiment.toml"), HasSubstr("\nsteps = 6\n"));
  expect_refusal(run_mneme({"train", experiment(tiny()), "--steps", "9"}), 2,
                 {"train --steps goes with --resume; for a new run use --set train.steps=N"});
  expect_refusal(run_mneme({"train", "--resume", run, "--steps", "0"}), 2,
                 {"--steps: expected an integer in [1, 1000000000], got 0"});
}

TEST_F(TrainRuns, AreNotExtendedIntoTheirWarmUp) {
  const std::string run = done("warmup = 5\nsave_every = 2\nkeep_checkpoints = 9\n");
  expect_refusal(run_mneme({"train", "--resume", run, "--checkpoint", "2", "--steps", "4"}), 2,
                 {"--steps: the run would end within its warm-up", "train.warmup, 5", "got 4"});
}

TEST_F(TrainRuns, AreNotExtendedIntoADecayWithinTheWarmUp) {
  const std::string run = done("warmup = 4\nschedule = \"wsd\"\nsave_every = 2\n");
  expect_refusal(run_mneme({"train", "--resume", run, "--checkpoint", "4", "--steps", "4"}), 2,
                 {"--steps: the decay would begin within the warm-up",
                  "train.warmup, 4, and train.decay_share of the steps, 1", "got 4"});
}

TEST_F(TrainRuns, ThatStoppedEarlyAreNotExtended) {
  std::string text = tiny();
  text.replace(text.find("lr = 3e-3"), 9, "lr = 1e-300\neval_every = 1\nearly_stop = 2");
  const std::string run = file("run");
  expect_done(run_mneme({"train", experiment(text), "--run", run, "--quiet"}));
  expect_refusal(run_mneme({"train", "--resume", run, "--steps", "60"}), 2,
                 {"stopped early, after step 3", "train.early_stop = 2", "--init RUN"});
}

}  // namespace
}  // namespace mneme::test
