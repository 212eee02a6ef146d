#include <algorithm>
#include <csignal>
#include <nlohmann/json.hpp>
#include <sstream>

#include "host/base/file/file.hpp"
#include "host/base/text.hpp"
#include "tests/cli/program.hpp"

namespace mneme::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

namespace fs = std::filesystem;

class CompareRun : public CliTest {
 protected:
  void SetUp() override {
    plugin_ = fs::path(MNEME_PLUGIN_DIR) / "xl_cache.so";
    ASSERT_TRUE(fs::exists(plugin_)) << plugin_;
    none_ = folder_.write("none.toml", "[memory]\n").string();
    cache_ = folder_.write("cache.toml", memory_with("xl_cache", MNEME_PLUGIN_DIR, "rows = 16"))
                 .string();
  }
  ProgramResult compare(const std::vector<std::string>& more) const {
    std::vector<std::string> arguments{"compare", experiment(tiny()), "--memory",
                                       none_,     "--memory",         cache_};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_mneme(arguments);
  }

  fs::path plugin_;
  std::string none_;
  std::string cache_;
};

TEST_F(CompareRun, PrintsATable) {
  const ProgramResult result = compare({"--json", file("out.json")});
  expect_done(result);
  for (const std::string text :
       {"cache against none", "no tier", "valid loss, nats a token", "valid perplexity",
        "valid accuracy, source inside the segment", "valid accuracy, source outside the segment",
        "chance: 0.1250", "parameters of the backbone", "parameters of the memory",
        "state bytes a lane", "training tokens/s", "evaluation tokens/s",
        "one seed: no interval"}) {
    EXPECT_THAT(result.out, HasSubstr(text));
  }
  EXPECT_THAT(result.err, HasSubstr("train none (seed 1) run 1 of 2: 6/6"));
  EXPECT_THAT(result.err, HasSubstr("train cache (seed 1) run 2 of 2: 6/6"));
  EXPECT_THAT(result.err, HasSubstr("evaluate cache valid run 2 of 2: 4/4"));
  EXPECT_THAT(result.out + result.err, Not(HasSubstr("\r")));

  const auto json = Json::parse(read_file(folder_ / "out.json"));
  const auto& arms = json.at("arms");
  EXPECT_EQ(arms.at(0).at("seeds").at(0).at("initial_sha256"),
            arms.at(1).at("seeds").at(0).at("initial_sha256"));
  EXPECT_EQ(arms.at(0).at("plugins").size(), 0U);
  EXPECT_EQ(arms.at(1).at("plugins").at(0).at("sha256").get<std::string>().size(), 64U);
  const auto state_bytes = [&](int arm) {
    return arms.at(static_cast<std::size_t>(arm))
        .at("seeds")
        .at(0)
        .at("splits")
        .at("valid")
        .at("result")
        .at("state_bytes")
        .get<std::int64_t>();
  };
  EXPECT_EQ(state_bytes(0), 0);
  EXPECT_GT(state_bytes(1), 0);
}

// 80 columns without COLUMNS, else as many as COLUMNS says.
TEST_F(CompareRun, FitsTheTableToTheTerminal) {
  const auto widest = [&](const std::vector<std::string>& environment) {
    const std::string second =
        folder_.write("another_memory_with_a_long_name.toml", read_file(cache_)).string();
    const ProgramResult result = run_mneme({"compare", experiment(tiny()), "--memory", none_,
                                            "--memory", cache_, "--memory", second, "--quiet"},
                                           {.environment = environment});
    expect_done(result);
    std::istringstream in(result.out);
    std::size_t longest = 0;
    for (std::string line; std::getline(in, line);) longest = std::max(longest, line.size());
    return longest;
  };
  EXPECT_LE(widest({"COLUMNS="}), 80U);
  EXPECT_LE(widest({"COLUMNS=60"}), 60U);
  EXPECT_GT(widest({"COLUMNS=200"}), 100U);
}

// The folder of the first arm's run would have a longer name than a file can have.
TEST_F(CompareRun, CountsARunThatFailsBeforeItTrains) {
  const std::string unusable =
      folder_.write(std::string(250, 'n') + ".toml", "[memory]\n").string();
  const ProgramResult result = run_mneme({"compare", experiment(tiny()), "--memory", unusable,
                                          "--memory", cache_, "--run", file("runs")});
  EXPECT_EQ(result.exit_code, 1) << result.err;
  EXPECT_THAT(result.err, HasSubstr("the run's folder cannot be made"));
  EXPECT_THAT(result.err, HasSubstr("train cache (seed 1) run 2 of 2: 6/6"));
}

TEST_F(CompareRun, RunsSeveralSeeds) {
  const ProgramResult result = compare({"--seeds", "2", "--quiet"});
  expect_done(result);
  EXPECT_EQ(result.err, "");
  EXPECT_THAT(result.out, HasSubstr(" +- "));
  EXPECT_THAT(result.out, HasSubstr("2 seeds: mean +- standard deviation"));
}

TEST_F(CompareRun, ShowsWhatWasDoneWhenASignalStopsIt) {
  const std::vector<std::string> more{"--run",  file("runs"),    "--set", "train.steps=1000",
                                      "--json", file("out.json")};
  std::vector<std::string> arguments{"compare", experiment(tiny()), "--memory",
                                     none_,     "--memory",         cache_};
  arguments.insert(arguments.end(), more.begin(), more.end());
  const ProgramResult result = run_mneme(
      arguments, {.signal = SIGTERM, .signal_after = "train cache (seed 1) run 2 of 2: 1/1000"});
  EXPECT_EQ(result.exit_code, 1) << result.err;
  EXPECT_EQ(result.signal, 0);
  EXPECT_THAT(result.err,
              HasSubstr("stopped by SIGTERM in cache (seed 1): 1 of 2 trainings were done and are "
                        "shown; their runs are " +
                        file("runs/none-seed1") +
                        "; the unfinished one's folder was removed; the "
                        "JSON is in " +
                        file("out.json")));
  EXPECT_THAT(result.out, HasSubstr("valid loss, nats a token"));
  EXPECT_THAT(result.out, HasSubstr("stopped before every arm"));
  EXPECT_TRUE(fs::exists(file("runs/none-seed1/run.json")));
  EXPECT_FALSE(fs::exists(file("runs/cache-seed1")));
  const auto json = Json::parse(read_file(folder_ / "out.json"));
  EXPECT_TRUE(json.at("interrupted").get<bool>());
  EXPECT_EQ(json.at("arms").size(), 1U);
  expect_done(compare({"--run", file("runs"), "--quiet"}));
}

TEST_F(CompareRun, SaysWhenASignalStopsIt) {
  std::vector<std::string> arguments{"compare", experiment(tiny()),  "--memory", none_,
                                     "--set",   "train.steps=100000"};
  const ProgramResult result =
      run_mneme(arguments, {.signal = SIGTERM, .signal_after = " 1/100000"});
  EXPECT_EQ(result.exit_code, 1) << result.err;
  EXPECT_THAT(result.err, HasSubstr("stopped by SIGTERM in none (seed 1): 0 of 1 trainings"));
  EXPECT_EQ(result.out, "");
}

}  // namespace
}  // namespace mneme::test
