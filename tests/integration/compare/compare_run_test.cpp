#include <algorithm>
#include <chrono>
#include <csignal>
#include <sstream>
#include <thread>

#include "tests/integration/compare/compare_fixture.hpp"
#include "tests/integration/process.hpp"

namespace mneme::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

namespace fs = std::filesystem;

TEST_F(CompareRun, PrintsTablesAndKeepsEverything) {
  const ProgramResult result = compare({"--json", file("out.json")});
  expect_done(result);
  for (const std::string text :
       {"none", "cache", "valid loss, nats a token", "valid perplexity",
        "valid accuracy, source inside the segment", "valid accuracy, source outside the segment",
        "parameters of the backbone", "parameters of the memory", "state bytes a lane",
        "training tokens/s", "evaluation tokens/s", "one seed"}) {
    EXPECT_THAT(result.out, HasSubstr(text));
  }
  EXPECT_THAT(result.err, HasSubstr(done_line("none-seed1", 1)));
  EXPECT_THAT(result.err, HasSubstr(done_line("cache-seed1", 2)));
  EXPECT_THAT(result.err, Not(HasSubstr("; ;")));
  EXPECT_THAT(result.out + result.err, Not(HasSubstr("\r")));

  const Json arms = record().at("arms");
  EXPECT_EQ(arms.at(0).at("runs").at(0).at("initial_sha256"),
            arms.at(1).at("runs").at(0).at("initial_sha256"));
  EXPECT_EQ(arms.at(0).at("runs").at(0).at("state"), "done");
  EXPECT_EQ(arms.at(0).at("plugins").size(), 0U);
  EXPECT_EQ(arms.at(1).at("plugins").at(0).at("sha256").get<std::string>().size(), 64U);
  EXPECT_TRUE(fs::exists(file("comparison/experiments/cache-seed1.toml")));
  EXPECT_TRUE(fs::exists(file("comparison/cache-seed1/checkpoints")));
  EXPECT_TRUE(fs::exists(file("comparison/report/index.html")));
}

// The report made again from the files has the same numbers; so has the command that finds
// everything done.
TEST_F(CompareRun, IsComputedFromItsFiles) {
  expect_done(compare({"--seeds", "2", "--json", file("first.json"), "--quiet"}));
  const ProgramResult again = compare({"--seeds", "2", "--json", file("again.json"), "--quiet"});
  expect_done(again);
  EXPECT_EQ(read_file(folder_ / "first.json"), read_file(folder_ / "again.json"));
  expect_done(run_mneme({"report", file("comparison"), "--json", file("report.json")}));
  EXPECT_EQ(numbers("first.json"), numbers("report.json"));
  expect_done(run_mneme({"certify", file("comparison/cache-seed2"), "--split", "valid", "--tokens",
                         "60", "--quiet"}));
  expect_verified();
}

// 80 columns without COLUMNS, else as many as COLUMNS says.
TEST_F(CompareRun, FitsTheTableToTheTerminal) {
  const std::string second =
      folder_.write("another_memory_with_a_long_name.toml", read_file(cache_)).string();
  const auto widest = [&](const std::vector<std::string>& environment) {
    const ProgramResult result =
        run_mneme(arguments({"--memory", second, "--quiet"}), {.environment = environment});
    expect_done(result);
    std::istringstream in(result.out.substr(0, result.out.find("report, with")));
    std::size_t longest = 0;
    for (std::string line; std::getline(in, line);) longest = std::max(longest, line.size());
    return longest;
  };
  EXPECT_LE(widest({"COLUMNS="}), 80U);
  EXPECT_LE(widest({"COLUMNS=60"}), 60U);
  EXPECT_GT(widest({"COLUMNS=200"}), 80U);
}

// A name that is too long for a folder is cut; an arm that diverges is told and the other goes on.
TEST_F(CompareRun, GoesOnWithoutAnArmThatDiverges) {
  const std::string long_name =
      folder_.write(std::string(250, 'n') + ".toml", "[memory]\n").string();
  const ProgramResult result =
      run_mneme({"compare", experiment(tiny()), "--memory", long_name + ",train.lr=1e30",
                 "--memory", cache_, "--run", file("comparison"), "--threads", "1"});
  EXPECT_EQ(result.exit_code, 1) << result.err;
  EXPECT_THAT(result.err, HasSubstr("the training reached numbers that are not finite"));
  EXPECT_THAT(result.err, HasSubstr("cache-seed1 is done (1 of 2 runs, 1 failed)"));
  EXPECT_THAT(result.out, HasSubstr("valid loss, nats a token"));
  EXPECT_TRUE(fs::exists(file("comparison/" + std::string(120, 'n') + "-seed1/run.json")));
}

TEST_F(CompareRun, RunsSeveralSeedsSideBySide) {
  const ProgramResult result = compare({"--seeds", "2", "--jobs", "2", "--quiet"});
  expect_done(result);
  EXPECT_EQ(result.err, "");
  EXPECT_THAT(result.out, HasSubstr(" +- "));
  EXPECT_EQ(record().at("seeds"), Json::array({1, 2}));
}

TEST_F(CompareRun, TrainsAnArmForEveryValueOfASweep) {
  expect_done(compare({"--sweep", "tier.0.rows=8,24", "--quiet"}));
  const Json arms = record().at("arms");
  ASSERT_EQ(arms.size(), 3U);
  EXPECT_EQ(arms.at(1).at("name"), "cache,rows=8");
  EXPECT_EQ(arms.at(2).at("overrides"), Json::array({"memory.tier.0.rows=24"}));
  EXPECT_TRUE(fs::exists(file("comparison/cache,rows=24-seed1/run.json")));
}

TEST_F(CompareRun, ChoosesSizesOfEqualBudgets) {
  const std::string large =
      folder_.write("large.toml", memory_with("xl_cache", MNEME_PLUGIN_DIR, "rows = 40")).string();
  const ProgramResult state =
      run_mneme(arguments({"--memory", large, "--equal", "state", "--quiet"}));
  expect_done(state);
  EXPECT_THAT(state.out, HasSubstr("bytes of state a lane, those of cache"));
  EXPECT_THAT(state.out, HasSubstr("large: memory.tier.0.rows = 16 in place of 40"));
  EXPECT_THAT(state.out, HasSubstr("none: has no size to choose"));
  const ProgramResult parameters = compare({"--equal", "parameters", "--quiet"}, "parameters");
  expect_done(parameters);
  EXPECT_THAT(parameters.out, HasSubstr("equal budgets: "));
  expect_verified("parameters");
}

// Backbones of other sizes do not start from the same weights, and their losses are compared.
TEST_F(CompareRun, ComparesBackbonesOfOtherSizes) {
#ifdef MNEME_HAS_COMPRESSIVE
  // A memory with parameters of its own, so that the other arm's layers become wider.
  const std::string trained =
      folder_
          .write("trained.toml",
                 memory_with("compressive", MNEME_PLUGIN_DIR, "rows = 8\ncompressed_rows = 8"))
          .string();
  const ProgramResult parameters =
      run_mneme({"compare", experiment(tiny()), "--memory", trained, "--memory", none_, "--run",
                 file("parameters"), "--threads", "1", "--equal", "parameters", "--quiet"});
  expect_done(parameters);
  EXPECT_THAT(parameters.out, HasSubstr("none: model.ff = "));
  EXPECT_THAT(parameters.out, HasSubstr("valid loss, nats a token"));
  EXPECT_TRUE(fs::exists(file("parameters/report/index.html")));
#endif
  const ProgramResult sweep = compare({"--sweep", "model.ff=24,32", "--quiet"});
  expect_done(sweep);
  EXPECT_THAT(sweep.out, HasSubstr("none,ff=32"));
}

// What was evaluated before the training went on is no result of the comparison.
TEST_F(CompareRun, EvaluatesTheLastWeights) {
  std::string text;
  for (int i = 0; i < 200; ++i) text += str("line ", i * i, " of a text\n");
  const std::string data = folder_.write("text.txt", text).string();
  const std::vector<std::string> command{
      "compare",
      experiment(tiny_on(str("task = \"text\"\nvocabulary = \"byte\"\ntrain = \"", data,
                             "\"\nvalid = \"", data, "\"\ntest = \"", data, '"'))),
      "--memory",
      none_,
      "--run",
      file("comparison"),
      "--threads",
      "1",
      "--quiet",
      "--set",
      "train.steps=1500",
      "--set",
      "train.save_every=1500"};
  Process process(command, folder_ / "log");
  ASSERT_TRUE(has_begun("none-seed1")) << read_file(folder_ / "log");
  process.send(SIGTERM);
  static_cast<void>(process.wait());
  expect_done(run_mneme({"eval", file("comparison/none-seed1"), "--split", "test", "--quiet"}));
  expect_done(run_mneme(command));
  std::vector<std::string> last;
  for (const auto& entry : fs::directory_iterator(file("comparison/none-seed1/evaluations"))) {
    const std::string name = entry.path().filename().string();
    if (name.find("-step00001500-") != std::string::npos) last.push_back(name);
  }
  std::ranges::sort(last);
  ASSERT_EQ(last.size(), 2U);
  EXPECT_THAT(last[0], HasSubstr("test-step"));
  EXPECT_THAT(last[1], HasSubstr("valid-step"));
}

// As some supervisors start programs: the system then keeps no status of children.
TEST_F(CompareRun, RunsThoughItsStarterIgnoresSigchld) {
  std::signal(SIGCHLD, SIG_IGN);
  Process process(arguments({"--quiet"}), folder_ / "log");
  std::signal(SIGCHLD, SIG_DFL);
  for (int i = 0; i < 3000 && process.is_running(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  ASSERT_FALSE(process.is_running()) << "it waits for an end that it cannot learn of";
  EXPECT_EQ(WEXITSTATUS(process.wait()), 0) << read_file(folder_ / "log");
  EXPECT_THAT(read_file(folder_ / "log"), HasSubstr("valid loss, nats a token"));
}

TEST_F(CompareRun, ComparesRunsThatAreThere) {
  for (const auto& [memory, name] : {std::pair(none_, "a"), std::pair(cache_, "b")}) {
    expect_done(run_mneme(
        {"train", experiment(tiny()), "--memory", memory, "--run", file(name), "--quiet"}));
  }
  const ProgramResult result = run_mneme({"compare", file("a"), file("b")});
  expect_done(result);
  EXPECT_THAT(result.out, HasSubstr("valid loss, nats a token"));
  expect_refusal(run_mneme({"compare", file("a"), file("b"), "--seeds", "2"}), 2,
                 {"run folders are compared as they are"});
  expect_refusal(run_mneme({"compare", file("a"), cache_}), 2,
                 {"expected one experiment file, or run folders"});
}

TEST_F(CompareRun, BeginsEveryArmWithGivenWeights) {
  expect_done(run_mneme({"train", experiment(tiny()), "--memory", none_, "--run", file("base"),
                         "--threads", "1", "--quiet"}));
  const std::vector<std::string> with_init = {"--init", file("base"), "--quiet"};
  expect_done(compare(with_init));
  const auto source_of = [&](const std::string& run) {
    const Json info = Json::parse(read_file(folder_ / "comparison" / run / "run.json"));
    return info.value("initial_weights", Json());
  };
  for (const char* run : {"none-seed1", "cache-seed1"}) {
    ASSERT_TRUE(source_of(run).is_object()) << run;
    EXPECT_THAT(source_of(run).at("file").get<std::string>(), HasSubstr("/comparison/initial/"));
  }
  // The comparison goes on with the weights that it began with, also when the run is gone.
  fs::remove_all(folder_ / "base");
  const Json weights = record().at("initial_weights");
  EXPECT_EQ(weights.at("given"), file("base"));
  expect_done(run_mneme({"report", file("comparison"), "--json", file("report.json")}));
  // A report names no folder of the machine.
  const Json shown = Json::parse(read_file(folder_ / "report.json")).at("initial_weights");
  EXPECT_EQ(shown.at("given"), "base");
  EXPECT_EQ(shown.at("file"), fs::path(weights.at("file")).filename().string());
  EXPECT_EQ(shown.at("sha256"), weights.at("sha256"));
  EXPECT_THAT(read_file(folder_ / "comparison/report/index.html"),
              HasSubstr(weights.at("sha256").get<std::string>()));
  // The same command takes what is there; one without the weights leaves it as it is.
  const auto written = fs::last_write_time(folder_ / "comparison/none-seed1/metrics.jsonl");
  expect_done(compare(with_init));
  EXPECT_EQ(fs::last_write_time(folder_ / "comparison/none-seed1/metrics.jsonl"), written);
  expect_refusal(compare({"--quiet"}), 2,
                 {"comparison.json: runs that are done there would be left out: expected --init ",
                  "got no --init; name another folder with --run DIR"});
  EXPECT_EQ(record().at("initial_weights").at("sha256"), weights.at("sha256"));
  expect_refusal(compare({"--init", file("nowhere")}), 2, {"nowhere"});
  expect_refusal(run_mneme({"compare", file("comparison/none-seed1"), "--init", none_}), 2,
                 {"run folders are compared as they are", "--init"});
  expect_refusal(
      compare({"--init", none_, "--equal", "parameters"}), 2,
      {"--equal parameters gives arms feed-forward layers of other sizes", "leave --init out"});
  // An arm that cannot begin with them is found before anything is trained.
  const ProgramResult misfit = compare(
      {"--init", file("comparison/none-seed1"), "--set", "model.width=32", "--quiet"}, "other");
  expect_refusal(misfit, 2, {"none", "the checkpoint belongs to another model"});
  EXPECT_FALSE(fs::exists(folder_ / "other/none-seed1"));
}

TEST_F(CompareRun, RunsASuite) {
  folder_.write("motif.toml", tiny());
  folder_.write("suite.toml", R"(seeds = 2
[[memory]]
file = "none.toml"
[[memory]]
name = "kept"
file = "cache.toml"
[[task]]
experiment = "motif.toml"
measure = "outside_accuracy"
[[task]]
name = "short"
experiment = "motif.toml"
set = ["train.steps=3"]
)");
  const auto suite = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all{"compare",   "--suite", file("suite.toml"), "--run", file("s"),
                                 "--threads", "1",       "--jobs",           "2"};
    all.insert(all.end(), more.begin(), more.end());
    return run_mneme(all);
  };
  const ProgramResult result = suite({"--json", file("suite.json")});
  expect_done(result);
  EXPECT_THAT(result.err, HasSubstr("task 2 of 2: short"));
  for (const char* const text :
       {"motif, outside", "short", "none", "kept", "Mean over 2 seeds", "P(better than none)"})
    EXPECT_THAT(result.out, HasSubstr(text));
  const Json table = Json::parse(read_file(folder_ / "suite.json"));
  ASSERT_EQ(table.at("rows").size(), 2U);
  const Json cell = table.at("rows").at(0).at(2);
  EXPECT_EQ(cell.at("values").size(), 2U);
  EXPECT_LE(cell.at("low").get<double>(), cell.at("mean").get<double>());
  EXPECT_TRUE(fs::exists(file("s/short/kept-seed2/run.json")));
  EXPECT_TRUE(fs::exists(file("s/motif/report/index.html")));
  EXPECT_TRUE(fs::exists(file("s/suite.tex")));
  EXPECT_TRUE(fs::exists(file("s/figures/suite-profiles.vl.json")));

  // The table again from the files alone; and the same command finds everything done.
  const ProgramResult again = run_mneme({"report", file("s")});
  expect_done(again);
  EXPECT_EQ(again.out, result.out);
  expect_done(suite({"--json", file("again.json"), "--quiet"}));
  EXPECT_EQ(read_file(folder_ / "suite.json"), read_file(folder_ / "again.json"));

  expect_refusal(suite({"--memory", none_}), 2,
                 {"compare --suite names experiments and memories; leave --memory out"});
  const std::string record = read_file(folder_ / "s/suite.json");
  const Descriptor lock(::open(file("s/lock").c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_EQ(::flock(lock.get(), LOCK_EX), 0);  // as the command that runs
  expect_refusal(suite({"--quiet"}), 2, {file("s"), "in use"});
  EXPECT_EQ(read_file(folder_ / "s/suite.json"), record);
  expect_refusal(run_mneme({"report", file("s"), "--pairs"}), 2,
                 {"the table of a suite compares no arms: expected no --baseline, --pairs, "
                  "--margin or --bundle beside "});
  folder_.write(
      "s/suite.json",
      R"({"format": "mneme-suite", "version": 1, "command": "", "file": "", "tasks": []})");
  expect_refusal(run_mneme({"report", file("s"), "--figures", "svg"}), 2,
                 {"expected no --figures beside ", "two tasks with an accuracy and two seeds"});
  folder_.write("s/suite.json", "{}");
  expect_refusal(run_mneme({"report", file("s")}), 2, {"it is no record of a suite"});
}

TEST_F(CompareRun, CountsAllTasksOfASuiteThatIsStopped) {
  write_suite("train.steps=3000", "");
  const ProgramResult stopped =
      run_mneme({"compare", "--suite", file("suite.toml"), "--run", file("s"), "--threads", "1"},
                {.signal = SIGTERM, .signal_after = "task 1 of 2: motif"});
  EXPECT_EQ(stopped.exit_code, 128 + SIGTERM) << stopped.err;
  EXPECT_THAT(stopped.err, HasSubstr("stopped by SIGTERM: 0 of 4 runs are done, 1 of 2 tasks has "
                                     "not begun, the others are saved"));
}

// A record without the keys that came after it, and runs without checks.
TEST_F(CompareRun, ContinuesTheFolderOfAnOlderVersion) {
  expect_done(compare({"--quiet"}));
  const fs::path metrics = folder_ / "comparison/cache-seed1/metrics.jsonl";
  const auto written = fs::last_write_time(metrics);
  Json old = record();
  old.at("machine").erase("threads");
  for (Json& arm : old.at("arms")) {
    arm.erase("checks");
    arm.erase("curve");
  }
  folder_.write("comparison/comparison.json", old.dump());
  for (const char* const run : {"none-seed1", "cache-seed1"}) {
    fs::remove(folder_ / "comparison" / run / "checks.json");
  }
  const ProgramResult shown = run_mneme({"report", file("comparison")});
  expect_done(shown);
  EXPECT_THAT(shown.out, HasSubstr("valid loss, nats a token"));
  expect_done(compare({"--quiet"}));
  EXPECT_EQ(fs::last_write_time(metrics), written);
  const Json arm = record().at("arms").at(1);
  EXPECT_TRUE(arm.contains("checks") && arm.contains("curve"));
  EXPECT_EQ(arm.at("runs").at(0).at("state"), "done");
  EXPECT_EQ(arm.at("runs").at(0).at("folder"), "cache-seed1");
}

// Finished runs are taken, a stopped one is resumed, and the end is that of a comparison that was
// never stopped.
TEST_F(CompareRun, IsContinuedAfterASignal) {
  const std::vector<std::string> more{"--set", "train.steps=300", "--set", "train.save_every=20",
                                      "--force"};
  const auto with = [&](const std::string& json) {
    std::vector<std::string> all = more;
    all.insert(all.end(), {"--json", file(json)});
    return all;
  };
  expect_done(compare(with("whole.json"), "whole"));
  const ProgramResult stopped =
      run_mneme(arguments(with("part.json")),
                {.signal = SIGTERM, .signal_after = "none-seed1 is done (1 of 2 runs)"});
  EXPECT_EQ(stopped.exit_code, 128 + SIGTERM) << stopped.err;
  EXPECT_EQ(stopped.signal, 0);
  EXPECT_THAT(stopped.err, HasSubstr("stopped by SIGTERM: 1 of 2 runs are done"));
  EXPECT_THAT(stopped.err, HasSubstr("the same command continues: mneme compare"));
  EXPECT_THAT(stopped.err, HasSubstr(" --threads 1 --force\n"));
  EXPECT_EQ(record().at("arms").at(0).at("runs").at(0).at("state"), "done");
  EXPECT_EQ(record().at("arms").at(1).at("runs").at(0).at("state"), "waiting");
  const ProgramResult end = compare(with("end.json"));
  expect_done(end);
  EXPECT_EQ(numbers("end.json"), numbers("whole.json"));
}

// As on a full disk: no checkpoint can be written. What was trained is said to be lost, and once
// there is room the same command does it.
TEST_F(CompareRun, TellsAFullDiskAndGoesOnLater) {
  const std::vector<std::string> one{"compare", experiment(tiny()), "--memory", none_,
                                     "--run",   file("comparison"), "--quiet"};
  const ProgramResult full = run_mneme(one, {.file_size = 20'000});
  EXPECT_EQ(full.exit_code, 1) << full.err;
  EXPECT_THAT(full.err, HasSubstr("mneme: error: none (seed 1): "));
  EXPECT_THAT(full.err, HasSubstr("File too large"));
  EXPECT_EQ(record().at("arms").at(0).at("runs").at(0).at("state"), "failed");
  expect_done(run_mneme(one));
  EXPECT_EQ(record().at("arms").at(0).at("runs").at(0).at("state"), "done");
}

// There is room for the checkpoints, and none for the losses.
TEST_F(CompareRun, TellsThatLossesHaveNoRoom) {
  const ProgramResult full = run_mneme({"compare", experiment(tiny()), "--memory", none_, "--run",
                                        file("comparison"), "--set", "eval.steps=3000"},
                                       {.file_size = 1'000'000});
  EXPECT_EQ(full.exit_code, 1) << full.err;
  EXPECT_THAT(full.err, HasSubstr("mneme: error: none (seed 1): the evaluation is not stored"));
  EXPECT_THAT(full.err, HasSubstr("File too large"));
  EXPECT_THAT(full.err, Not(HasSubstr("ended well")));
  EXPECT_THAT(full.err, HasSubstr("0 of 1 runs done, 1 failed; "));
}

TEST_F(CompareRun, WarnsOfADiskThatIsTooSmall) {
  if (fs::space(folder_.path()).available > 100'000'000'000'000) GTEST_SKIP() << "a large disk";
  const ProgramResult result =
      run_mneme(arguments({"--seeds", "100", "--set", "eval.steps=1000000000"}),
                {.signal = SIGTERM, .signal_after = "are free: make room"});
  EXPECT_THAT(result.err, HasSubstr("comparison: the runs will take about "));
}

TEST_F(CompareRun, RefusesAFolderInWhichAnotherOneWorks) {
  fs::create_directories(file("comparison"));
  Process other(arguments({"--set", "train.steps=100000", "--quiet"}), folder_ / "log");
  for (int i = 0; i < 400 && !fs::exists(file("comparison/comparison.json")); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const ProgramResult result = compare({});
  EXPECT_EQ(result.exit_code, 2) << result.err;
  EXPECT_THAT(result.err, HasSubstr("in use"));
  other.send(SIGTERM);
  EXPECT_EQ(WEXITSTATUS(other.wait()), 128 + SIGTERM);
}

}  // namespace
}  // namespace mneme::test
