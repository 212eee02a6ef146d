// Trainings and evaluations over several ranks give the numbers of one process.
#include <algorithm>

#include "host/base/file/safetensors.hpp"
#include "tests/integration/ranks/ranks_fixture.hpp"
#include "tests/run/run_compare.hpp"

namespace mneme::test {
namespace {

using ::testing::HasSubstr;

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

// Losses of 24 steps, their gradients' norms and the evaluations, with dropout and accumulation. Four
// ranks have a lane each, which the memories meet in ResumeWithOtherNumbersOfRanks.
TEST_P(RanksWithMemory, TrainAsOneProcess) {
  if (memory() == "skip") GTEST_SKIP() << "the plugin was not built";
  const std::string dropout = "attention_dropout = 0.1\n";
  std::string text = experiment(memory(), dropout, "accumulate = 2\neval_every = 12\n");
  std::string changed = read_file(text);
  changed.replace(changed.find("dropout = 0.0"), 13, "dropout = 0.1");
  changed.replace(changed.find("steps = 50"), 10, "steps = 24");
  folder_.write("experiment.toml", changed);
  expect_done(run(0, str("train ", text, " --quiet --run ", file("one"))));
  const std::vector<int> numbers_of_ranks = memory().empty() ? std::vector{2, 4} : std::vector{2};
  for (const int ranks : numbers_of_ranks) {
    const std::string name = str("of", ranks);
    expect_done(run(ranks, str("train ", text, " --quiet --run ", file(name))));
    expect_equal("one", name, 1e-10);
  }
}

// A certificate that two ranks make compares the losses of one process with those of both.
TEST_P(RanksWithMemory, AreCertified) {
  if (memory() == "skip") GTEST_SKIP() << "the plugin was not built";
  const std::string text = experiment(memory());
  expect_done(run(0, str("train ", text, " --quiet --set train.steps=6 --run ", file("one"))));
  expect_done(run(2, str("certify ", file("one"), " --split valid --tokens 60 --quiet --json ",
                         file("certificate.json"))));
  const Json json = Json::parse(read_file(folder_ / "certificate.json"));
  EXPECT_EQ(json.at("failed"), 0);
  const Json& lines = json.at("lines");
  const auto line =
      std::ranges::find(lines, "ranks", [](const Json& one) { return one.at("name"); });
  ASSERT_NE(line, lines.end());
  EXPECT_EQ(line->at("result"), "holds") << line->dump();
  EXPECT_LT(line->at("difference").get<double>(), 1e-3);
}

// With Muon, averages and z-loss. With two ranks, stopped and resumed: bit for bit. Begun with four
// ranks, continued with two, then with one.
TEST_P(RanksWithMemory, ResumeWithOtherNumbersOfRanks) {
  if (memory() == "skip") GTEST_SKIP() << "the plugin was not built";
  const std::string text =
      experiment(memory(), "",
                 "schedule = \"constant\"\nsave_every = 6\nkeep_checkpoints = 9\n"
                 "optimizer = \"muon\"\naverage = 0.9\nz_loss = 1e-3\n");
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
                    Memory{"lamemo", "lamemo", "rows = 12"}, Memory{"gla", "gla", ""},
                    Memory{"gated_deltanet", "gated_deltanet", ""}),
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
  const Result watch = run(2, str("eval ", file("run"), " --watch"));
  EXPECT_EQ(watch.exit_code, 2);
  EXPECT_THAT(watch.output, HasSubstr("eval --watch: a launcher started 2 processes, and this "
                                      "command runs in one"));
  const Result samples = run(2, str("generate ", file("run"), " --for-report 2"));
  EXPECT_EQ(samples.exit_code, 2);
  EXPECT_THAT(samples.output, HasSubstr("2 processes, and this command runs in one"));
}

// Rank 1 was given another run's weights.
TEST_F(Ranks, BeginWithTheWeightsOfRank0) {
  const std::string text = experiment("");
  for (const char* const seed : {"1", "2"}) {
    expect_done(run(0, str("train ", text, " --quiet --set train.steps=2 --set train.seed=", seed,
                           " --run ", file(str("from", seed)))));
  }
  const auto train = [&](const char* from, const std::string& name) {
    return str("train ", text, " --quiet --set train.steps=20 --init ", file(str("from", from)),
               " --run ", file(name));
  };
  expect_done(run(0, train("1", "one")));
  expect_done(run_two(train("1", "two"), train("2", "two")));
  const std::vector<double> expected = losses("one"), got = losses("two");
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-10) << i;
}

}  // namespace
}  // namespace mneme::test
