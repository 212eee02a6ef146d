// What can go wrong in a training over several ranks.
//
// MNEME_RANK_KILLS: how many ranks are killed (default 3; scripts/check/check_kills.sh --ranks: 100).
#include <unistd.h>

#include <chrono>
#include <iostream>
#include <random>
#include <set>
#include <thread>

#include "host/run/run_folder.hpp"
#include "host/tensor/torch.hpp"
#include "tests/integration/ranks/ranks_fixture.hpp"
#include "tests/run/run_compare.hpp"

namespace mneme::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST_F(Ranks, RefuseLanesThatTheyDoNotDivide) {
  const Result result = run(3, str("train ", experiment(""), " --quiet --run ", file("run")));
  EXPECT_EQ(result.exit_code, 2) << result.output;
  EXPECT_THAT(result.output,
              AllOf(HasSubstr("train.lanes: the lanes cannot be split equally over the ranks"),
                    HasSubstr("a multiple of the 3 ranks, for example 6, got 4")));
  EXPECT_FALSE(fs::exists(folder_ / "run"));
  // Rank 0 speaks for all.
  EXPECT_EQ(result.output.find("the lanes cannot"), result.output.rfind("the lanes cannot"));
}

TEST_F(Ranks, RefuseCommandsOfOneProcess) {
  const Result result = run(2, "doctor");
  EXPECT_EQ(result.exit_code, 2) << result.output;
  EXPECT_THAT(result.output,
              HasSubstr("mneme doctor: a launcher started 2 processes, and this command runs in "
                        "one: expected mneme train, eval or compare"));
}

TEST_F(Ranks, RefuseAWrongTimeLimit) {
  const Result result =
      run(2, str("train ", experiment(""), " --run ", file("run")), "MNEME_RANK_TIMEOUT=soon ");
  EXPECT_EQ(result.exit_code, 2) << result.output;
  EXPECT_THAT(result.output, HasSubstr("environment variable MNEME_RANK_TIMEOUT: wrong time that "
                                       "ranks wait for one another: expected seconds, at least 1, "
                                       "got soon"));
}

TEST_F(Ranks, RefuseRanksThatDiffer) {
  const std::string text = experiment(cache_memory().substr(9));
  std::string other = read_file(text);
  other.replace(other.find("lr = 3e-3"), 9, "lr = 4e-3");
  folder_.write("other.toml", other);
  const std::string rest = " --quiet --run " + file("run");
  const Result result = run_two(str("train ", text, rest), str("train ", file("other.toml"), rest));
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.output, AllOf(HasSubstr("rank 1 of 2 (host "),
                                   HasSubstr("its experiment is another one than that of rank 0"),
                                   HasSubstr("expected lr = 0.003, got lr = 0.004")));
  EXPECT_FALSE(fs::exists(folder_ / "run"));
}

TEST_F(Ranks, RefuseSlotsOfTheRun) {
  const std::string memory = str("plugins = [\"", MNEME_BINARY_DIR,
                                 "/tests/abi_plugins\"]\n[[memory.tier]]\nplugin = "
                                 "\"test_run_slot\"\n");
  const std::string text = experiment(memory);
  expect_done(run(0, str("train ", text, " --quiet --set train.steps=2 --run ", file("one"))));
  const Result result = run(2, str("train ", text, " --quiet --run ", file("run")));
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.output,
              AllOf(HasSubstr("memory slot 0.test.run_slot.mean: it belongs to the run and not to "
                              "lanes"),
                    HasSubstr("train with this memory in one process")));
}

// Rank 1 resumes another folder: as if its host did not see the run, or saw an older state of it.
TEST_F(Ranks, RefuseARunThatOneDoesNotSee) {
  const std::string text = experiment("", "", "save_every = 2\n");
  expect_done(run(0, str("train ", text, " --quiet --set train.steps=4 --run ", file("run"))));
  fs::copy(folder_ / "run", folder_ / "older", fs::copy_options::recursive);
  fs::remove(folder_ / "older/checkpoints/step_00000004.safetensors");
  const auto resume = [&](const std::string& name) {
    return str("train --resume ", file(name), " --steps 8 --quiet");
  };
  const Result unseen = run_two(resume("run"), resume("elsewhere"));
  EXPECT_EQ(unseen.exit_code, 2);
  EXPECT_THAT(unseen.output, AllOf(HasSubstr("rank 1 of 2 (host "),
                                   HasSubstr("it does not see the run that rank 0 resumes"),
                                   HasSubstr("on a file system that all hosts share")));
  const Result older = run_two(resume("run"), resume("older"));
  EXPECT_EQ(older.exit_code, 2);
  EXPECT_THAT(older.output, AllOf(HasSubstr("it has read another checkpoint than rank 0"),
                                  HasSubstr("expected step 4"), HasSubstr("got step 2")));
}

TEST_F(Ranks, SayOnceWhyTheFolderCannotBeMade) {
  folder_.write("file", "");
  const Result result = run(2, str("train ", experiment(""), " --quiet --run ", file("file/run")));
  EXPECT_NE(result.exit_code, 0);
  const std::string what = "cannot be made";
  EXPECT_THAT(result.output, HasSubstr(what));
  EXPECT_EQ(result.output.find(what), result.output.rfind(what));
}

// The rank whose lanes hold it names what is not finite.
TEST_F(Ranks, NameWhatIsNotFinite) {
  const std::string text = experiment(str("plugins = [\"", MNEME_BINARY_DIR,
                                          "/tests/abi_plugins\"]\n[[memory.tier]]\nplugin = "
                                          "\"test_unfinite\"\ngives = \"read\"\nfrom = 3\n"));
  const Result alone = run(0, str("train ", text, " --quiet --run ", file("one")));
  const Result result = run(2, str("train ", text, " --quiet --run ", file("run")));
  EXPECT_EQ(result.exit_code, 1) << result.output;
  EXPECT_THAT(result.output, AllOf(HasSubstr("the training reached numbers that are not finite"),
                                   HasSubstr("of plugin test.unfinite"), HasSubstr("of 2 (host ")))
      << alone.output;
}

// A rank that does not come (stopped by a signal) ends all, with its name.
TEST_F(Ranks, EndWhenOneHangs) {
  const std::string text = experiment("", "", "save_every = 5\n");
  start(str("train ", text, " --set train.steps=100000 --quiet --run ", file("run")),
        "MNEME_RANK_TIMEOUT=8 ");
  const auto wait_for = [](const auto& is_done) {
    for (int i = 0; i < 12000 && !is_done(); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return is_done();
  };
  ASSERT_TRUE(
      wait_for([&] { return !run::CheckpointFiles(folder_ / "run/checkpoints").steps().empty(); }));
  const std::set<pid_t> all = processes_with(file("run"));
  ASSERT_EQ(all.size(), 2u);
  ::kill(*all.rbegin(), SIGSTOP);
  EXPECT_TRUE(wait_for([&] { return fs::exists(folder_ / "code"); }));
  EXPECT_TRUE(wait_for([&] { return processes_with(file("run")).empty(); }));
  EXPECT_THAT(read_file(folder_ / "log"),
              AllOf(HasSubstr("mneme: error: rank "), HasSubstr(" of 2 (host "),
                    HasSubstr("did not come to \"step "), HasSubstr("within 8 s"),
                    HasSubstr("MNEME_RANK_TIMEOUT")));
  for (const pid_t one : processes_with(file("run"))) ::kill(one, SIGKILL);
  const run::CheckpointFiles files(folder_ / "run/checkpoints");
  EXPECT_NO_THROW(static_cast<void>(run::Checkpoint::open(files.path_of(files.steps().back()))));
}

// As a scheduler does: to one rank alone, or to all.
TEST_F(Ranks, StopTogetherOnASignal) {
  const std::string text = experiment("", "", "save_every = 0\n");
  expect_done(run(0, str("train ", text, " --quiet --set train.steps=400 --run ", file("one"))));
  start(str("train ", text, " --quiet --set train.steps=400 --run ", file("run")));
  for (int i = 0; i < 12000; ++i) {
    std::error_code ignored;
    if (fs::exists(folder_ / "run/metrics.jsonl") &&
        fs::file_size(folder_ / "run/metrics.jsonl", ignored) > 100) {
      break;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  const std::set<pid_t> all = processes_with(file("run"));
  ASSERT_EQ(all.size(), 2u) << read_file(folder_ / "log");
  ::kill(*all.rbegin(), SIGTERM);
  for (int i = 0; i < 12000 && !fs::exists(folder_ / "code"); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_EQ(read_file(folder_ / "code"), "143\n");
  EXPECT_THAT(read_file(folder_ / "log"), AllOf(HasSubstr("stopped by SIGTERM after step "),
                                                HasSubstr("saved; continue with")));
  expect_done(run(2, str("train --resume ", file("run"), " --quiet")));
  expect_equal("one", "run", 1e-10);
}

// Random ranks are killed at random moments: the launcher ends the others, nothing is left behind,
// and the run is brought to its end.
TEST_F(Ranks, SurviveKills) {
  const std::uint64_t seed =
      static_cast<std::uint64_t>(environment("MNEME_SEED", std::random_device{}()));
  std::cout << "MNEME_SEED=" << seed << '\n';
  std::mt19937_64 random(seed);
  const std::string text = experiment(cache_memory().substr(9), "",
                                      "save_every = 1\nkeep_checkpoints = 2\neval_every = 10\n");
  const auto begin = std::chrono::steady_clock::now();
  expect_done(run(2, str("train ", text, " --quiet --run ", file("whole"))));
  const std::chrono::duration<double> length = std::chrono::steady_clock::now() - begin;
  const std::int64_t wanted = environment("MNEME_RANK_KILLS", 3);
  std::int64_t kills = 0, ends = 0;
  for (bool is_last = false; !is_last && !HasFailure();) {
    is_last = kills >= wanted;
    const bool is_run = fs::exists(folder_ / "run/experiment.toml");
    const std::string arguments = is_run ? str("train --resume ", file("run"), " --quiet")
                                         : str("train ", text, " --quiet --run ", file("run"));
    start(arguments);
    bool is_killed = false;
    const std::chrono::duration<double> delay(std::uniform_real_distribution(0.0, 1.1)(random) *
                                              length.count());
    const auto end = std::chrono::steady_clock::now() + delay;
    while (!fs::exists(folder_ / "code")) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      if (is_last || is_killed || std::chrono::steady_clock::now() < end) continue;
      const std::set<pid_t> all = processes_with(file("run"));
      if (all.empty()) continue;
      auto one = all.begin();
      std::advance(one, static_cast<std::ptrdiff_t>(random() % all.size()));
      is_killed = ::kill(*one, SIGKILL) == 0;
    }
    for (int i = 0; i < 500 && !processes_with(file("run")).empty(); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    EXPECT_TRUE(processes_with(file("run")).empty()) << "left behind";
    if (read_file(folder_ / "code") != "0\n") {
      ASSERT_TRUE(is_killed) << read_file(folder_ / "log");
      ++kills;
      if (!fs::exists(folder_ / "run/experiment.toml")) {
        fs::remove_all(folder_ / "run");  // a start that was killed
        continue;
      }
      const run::CheckpointFiles files(folder_ / "run/checkpoints");
      for (const std::int64_t step : files.steps()) {
        EXPECT_NO_THROW(
            EXPECT_EQ(run::Checkpoint::open(files.path_of(step)).progress().step, step));
      }
      continue;
    }
    expect_same_runs(folder_ / "whole", folder_ / "run");
    ++ends;
    fs::remove_all(folder_ / "run");
  }
  std::cout << kills << " kills, " << ends << " runs brought to their end\n";
  EXPECT_GE(kills, wanted);
  EXPECT_GE(ends, 1);
}

}  // namespace
}  // namespace mneme::test
