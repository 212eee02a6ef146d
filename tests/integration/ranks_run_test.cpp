// Trainings and evaluations over several ranks, as mpirun starts them.
//
// MNEME_RANK_KILLS: how many ranks are killed (default 3; scripts/check_kills.sh --ranks: 100).
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <sstream>
#include <thread>

#include "host/base/file/file.hpp"
#include "host/base/text.hpp"
#include "host/run/run_folder.hpp"
#include "host/tensor/torch.hpp"
#include "tests/base/ordinary_user.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/integration/process.hpp"
#include "tests/train/run_compare.hpp"

namespace mneme::test {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

// A command of a shell, both outputs in `log`.
struct Result {
  int exit_code = 0;
  std::string output;
};

class Ranks : public testing::Test {
 protected:
  void SetUp() override {
    if (std::system("command -v mpirun >/dev/null 2>&1") != 0) GTEST_SKIP() << "there is no mpirun";
  }

  [[nodiscard]] std::string file(const std::string& name) const {
    return (folder_ / name).string();
  }

  // mpirun -n RANKS mneme ARGUMENTS; "mneme ARGUMENTS" for 0 ranks.
  [[nodiscard]] std::string command(int ranks, const std::string& arguments) const {
    const std::string here =
        "env OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMP_NUM_THREADS=1 "
        "NO_COLOR=1 ";
    const std::string launcher =
        ranks == 0 ? std::string() : str("mpirun --oversubscribe --bind-to none -n ", ranks, ' ');
    return str(here, launcher, MNEME_PROGRAM, ' ', arguments);
  }

  Result run(int ranks, const std::string& arguments, const std::string& before = "") const {
    const std::string log = file("log");
    const int status =
        std::system(str(before, command(ranks, arguments), " >", log, " 2>&1 </dev/null").c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, read_file(log)};
  }

  void expect_done(const Result& result) const { EXPECT_EQ(result.exit_code, 0) << result.output; }

  // The numbers of metrics.jsonl that are no times, by line and name.
  [[nodiscard]] std::map<std::string, double> numbers(const std::string& run) const {
    std::map<std::string, double> out;
    std::istringstream in(read_file(folder_ / run / "metrics.jsonl"));
    int line_number = 0;
    for (std::string line; std::getline(in, line); ++line_number) {
      const Json flat = Json::parse(line).flatten();
      for (const auto& [name, value] : flat.items()) {
        const bool is_time = name.find("seconds") != std::string::npos ||
                             name.find("per_second") != std::string::npos;
        if (value.is_number() && !is_time) out[str(line_number, name)] = value.get<double>();
      }
    }
    return out;
  }

  // Of all steps.
  [[nodiscard]] std::vector<double> losses(const std::string& run) const {
    std::vector<double> out;
    std::istringstream in(read_file(folder_ / run / "metrics.jsonl"));
    for (std::string line; std::getline(in, line);) {
      const Json json = Json::parse(line);
      if (json.at("kind") == "step") out.push_back(json.at("loss").get<double>());
    }
    return out;
  }

  void expect_equal(const std::string& one, const std::string& other, double tolerance) const {
    const auto a = numbers(one), b = numbers(other);
    EXPECT_GT(a.size(), 20u);
    ASSERT_EQ(a.size(), b.size()) << one << ' ' << other;
    double most = 0.0;
    std::string where;
    for (const auto& [name, value] : a) {
      ASSERT_TRUE(b.contains(name)) << name;
      const double far = std::abs(value - b.at(name)) / std::max(1.0, std::abs(value));
      if (far > most) where = name;
      most = std::max(most, far);
    }
    EXPECT_LE(most, tolerance) << one << ' ' << other << ": " << where;
  }

  // Trains a memory; the arguments come after `train`.
  std::string experiment(const std::string& memory, const std::string& more = "",
                         const std::string& train = "") const {
    return folder_
        .write("experiment.toml", str("[memory]\n", memory, R"(
[model]
layers = 2
heads = 2
head_width = 8
width = 16
ff = 32
dropout = 0.0
position = "disentangled"
init = "article"
)",
                                      more, kMotifData, R"([train]
segment = 8
lanes = 4
steps = 50
lr = 3e-3
log_every = 1
precision = "f64"
clip = 0.5
)",
                                      train, R"(
[eval]
steps = 6
)"))
        .string();
  }

  static std::string tier(const std::string& plugin, const std::string& options) {
    return str("plugins = [\"", MNEME_PLUGIN_DIR, "\"]\n[[memory.tier]]\nplugin = \"", plugin,
               "\"\n", options, '\n');
  }

  TemporaryFolder folder_;
};

struct Memory {
  const char* name;
  const char* plugin;
  const char* options;
};

class RanksWithMemory : public Ranks, public testing::WithParamInterface<Memory> {
 protected:
  [[nodiscard]] std::string memory() const {
    const Memory& one = GetParam();
    if (*one.plugin == '\0') return "";
    if (!fs::exists(fs::path(MNEME_PLUGIN_DIR) / (std::string(one.plugin) + ".so"))) return "skip";
    return tier(one.plugin, one.options);
  }
};

// Losses of 50 steps, their gradients' norms and the evaluation, with dropout and accumulation.
TEST_P(RanksWithMemory, TrainAsOneProcess) {
  if (memory() == "skip") GTEST_SKIP() << "the plugin was not built";
  const std::string dropout = "attention_dropout = 0.1\n";
  std::string text = experiment(memory(), dropout, "accumulate = 2\neval_every = 25\n");
  std::string changed = read_file(text);
  changed.replace(changed.find("dropout = 0.0"), 13, "dropout = 0.1");
  folder_.write("experiment.toml", changed);
  expect_done(run(0, str("train ", text, " --quiet --run ", file("one"))));
  for (const int ranks : {2, 4}) {
    const std::string name = str("of", ranks);
    expect_done(run(ranks, str("train ", text, " --quiet --run ", file(name))));
    expect_equal("one", name, 1e-10);
  }
}

// With two ranks, stopped and resumed: bit for bit. Begun with four ranks, continued with two, then
// with one.
TEST_P(RanksWithMemory, ResumeWithOtherNumbersOfRanks) {
  if (memory() == "skip") GTEST_SKIP() << "the plugin was not built";
  const std::string text =
      experiment(memory(), "", "schedule = \"constant\"\nsave_every = 6\nkeep_checkpoints = 9\n");
  const auto train = [&](int ranks, int steps, const std::string& name) {
    expect_done(run(
        ranks, str("train ", text, " --quiet --set train.steps=", steps, " --run ", file(name))));
  };
  const auto extend = [&](int ranks, int steps) {
    expect_done(run(ranks, str("train --resume ", file("four"), " --steps ", steps, " --quiet")));
  };
  train(0, 18, "one");
  train(4, 6, "four");
  extend(2, 12);
  extend(0, 18);
  const std::vector<double> expected = losses("one"), got = losses("four");
  ASSERT_EQ(expected.size(), 18u);
  ASSERT_EQ(got.size(), 18u);
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-10) << i;

  train(2, 18, "two");
  fs::copy(folder_ / "two", folder_ / "again", fs::copy_options::recursive);
  expect_done(run(2, str("train --resume ", file("again"), " --checkpoint 6 --quiet")));
  expect_same_runs(folder_ / "two", folder_ / "again");
}

INSTANTIATE_TEST_SUITE_P(
    All, RanksWithMemory,
    testing::Values(Memory{"none", "", ""}, Memory{"xl_cache", "xl_cache", "rows = 12"},
                    Memory{"compressive", "compressive",
                           "rows = 8\ncompressed_rows = 6\nrate = 2\nfunction = \"conv\"\n"
                           "loss = \"attention\"\nloss_norm = \"mse\""},
                    Memory{"continuous_ltm", "continuous_ltm", "basis = 8\nsticky = true"},
                    Memory{"lamemo", "lamemo", "rows = 12"}),
    [](const auto& one) { return std::string(one.param.name); });

// The checkpoints have the form of one process's.
TEST_F(Ranks, ShardTheOptimizer) {
  const std::string text = experiment(cache_memory().substr(9), "", "save_every = 20\n");
  expect_done(run(0, str("train ", text, " --quiet --run ", file("one"))));
  const std::string sharded = " --quiet --set train.shard_optimizer=true --set train.bucket_mb=1 ";
  expect_done(run(4, str("train ", text, sharded, "--run ", file("four"))));
  expect_equal("one", "four", 1e-10);
  const SafetensorsFile a =
      SafetensorsFile::open(folder_ / "one/checkpoints/step_00000050.safetensors");
  const SafetensorsFile b =
      SafetensorsFile::open(folder_ / "four/checkpoints/step_00000050.safetensors");
  EXPECT_EQ(a.names(), b.names());
  for (const std::string& name : a.names()) EXPECT_EQ(a.at(name).shape, b.at(name).shape) << name;
  for (const int ranks : {4, 2, 0}) {
    const std::string again = str("again", ranks);
    fs::copy(folder_ / "four", folder_ / again, fs::copy_options::recursive);
    expect_done(run(ranks, str("train --resume ", file(again), " --checkpoint 40 --quiet")));
    ranks == 4 ? expect_same_runs(folder_ / "four", folder_ / again)
               : expect_equal("four", again, 1e-10);
  }
}

TEST_F(Ranks, SendGradientsInBf16WhenAsked) {
  const std::string text = experiment("");
  expect_done(run(0, str("train ", text, " --quiet --run ", file("one"))));
  expect_done(run(2, str("train ", text, " --quiet --set train.precision=f32 --set ",
                         "train.gradients=bf16 --run ", file("two"))));
  const auto a = numbers("one"), b = numbers("two");
  EXPECT_NEAR(a.at("49/loss"), b.at("49/loss"), 0.05);
  EXPECT_NE(a.at("5/loss"), b.at("5/loss"));
}

TEST_F(Ranks, EvaluateAsOneProcess) {
  const std::string text = experiment(cache_memory().substr(9));
  expect_done(run(0, str("train ", text, " --quiet --run ", file("run"))));
  const auto evaluate = [&](int ranks, int lanes) {
    const Result result = run(ranks, str("eval ", file("run"), " --no-store --quiet --set ",
                                         "eval.lanes=", lanes, " --json ", file("eval.json")));
    EXPECT_EQ(result.exit_code, 0) << result.output;
    return Json::parse(read_file(folder_ / "eval.json")).at("memories").at(0).at("result");
  };
  for (const int lanes : {1, 4}) {  // one lane: three ranks wait
    const Json one = evaluate(0, lanes), several = evaluate(3, lanes);
    EXPECT_NEAR(one.at("loss").get<double>(), several.at("loss").get<double>(), 1e-12);
    for (const char* const key : {"tokens", "correct", "segments", "lanes", "state_bytes"})
      EXPECT_EQ(one.at(key), several.at(key)) << key;
  }
  const Result decode = run(2, str("eval ", file("run"), " --samples 2"));
  EXPECT_EQ(decode.exit_code, 2);
  EXPECT_THAT(decode.output, HasSubstr("run in one process: expected an evaluation of a split"));
}

// --- What can go wrong ---

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

// Rank 1 gets another experiment, and another plugin file.
TEST_F(Ranks, RefuseRanksThatDiffer) {
  const std::string text = experiment(cache_memory().substr(9));
  std::string other = read_file(text);
  other.replace(other.find("lr = 3e-3"), 9, "lr = 4e-3");
  folder_.write("other.toml", other);
  const std::string start = str("train $([ $OMPI_COMM_WORLD_RANK = 0 ] && echo ", text, " || echo ",
                                file("other.toml"), ") --quiet --run ", file("run"));
  const std::string script =
      folder_.write("start.sh", str("exec ", MNEME_PROGRAM, ' ', start, '\n')).string();
  const int status = std::system(
      str("env OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMP_NUM_THREADS=1 mpirun "
          "--oversubscribe -n 2 sh ",
          script, " >", file("log"), " 2>&1 </dev/null")
          .c_str());
  EXPECT_EQ(WEXITSTATUS(status), 2);
  EXPECT_THAT(read_file(folder_ / "log"),
              AllOf(HasSubstr("rank 1 of 2 (host "),
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

// Rank 1 resumes another folder, as if its host did not see the run.
TEST_F(Ranks, RefuseARunThatOneDoesNotSee) {
  const std::string text = experiment("");
  expect_done(run(0, str("train ", text, " --quiet --set train.steps=4 --run ", file("run"))));
  const std::string script =
      folder_
          .write("start.sh", str("exec ", MNEME_PROGRAM, " train --resume $([ ",
                                 "$OMPI_COMM_WORLD_RANK = 0 ] && echo ", file("run"), " || echo ",
                                 file("elsewhere"), ") --steps 8 --quiet\n"))
          .string();
  const int status = std::system(
      str("env OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMP_NUM_THREADS=1 mpirun "
          "--oversubscribe -n 2 sh ",
          script, " >", file("log"), " 2>&1 </dev/null")
          .c_str());
  EXPECT_EQ(WEXITSTATUS(status), 2);
  EXPECT_THAT(read_file(folder_ / "log"),
              AllOf(HasSubstr("rank 1 of 2 (host "),
                    HasSubstr("it does not see the run that rank 0 resumes"),
                    HasSubstr("on a file system that all hosts share")));
}

TEST_F(Ranks, SayOnceWhyTheFolderCannotBeMade) {
  folder_.write("file", "");
  const Result result = run(2, str("train ", experiment(""), " --quiet --run ", file("file/run")));
  EXPECT_NE(result.exit_code, 0);
  const std::string what = "the run's folder cannot be made";
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
  const std::string start =
      str("MNEME_RANK_TIMEOUT=8 ",
          command(2, str("train ", text, " --set train.steps=100000 --quiet --run ", file("run"))),
          " >", file("log"), " 2>&1 </dev/null & echo $!");
  ASSERT_EQ(std::system(("(" + start + ") >" + file("pid")).c_str()), 0);
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
  ASSERT_EQ(std::system(str("(",
                            command(2, str("train ", text, " --quiet --set train.steps=400 --run ",
                                           file("run"))),
                            " >", file("log"), " 2>&1 </dev/null; echo $? >", file("code"), ") &")
                            .c_str()),
            0);
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
  EXPECT_EQ(read_file(folder_ / "code"), "1\n");
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
    fs::remove(folder_ / "code");
    ASSERT_EQ(std::system(str("(", command(2, arguments), " >", file("log"),
                              " 2>&1 </dev/null; echo $? >", file("code"), ") &")
                              .c_str()),
              0);
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
    while (read_file(folder_ / "code").empty())
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
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
