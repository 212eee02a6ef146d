#include "host/compare/compare.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "host/tensor/torch.hpp"
#include "tests/base/temporary_folder.hpp"

namespace mneme::compare {
namespace {

using test::error_of;
using test::TemporaryFolder;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr const char* kTiny = R"([model]
layers = 1
heads = 2
width = 16
ff = 32
dropout = 0.1

[data]
task = "motif"
alphabet = 8
period_min = 4
period_max = 24

[train]
segment = 8
lanes = 4
steps = 5
lr = 3e-3
log_every = 2

[eval]
steps = 3
)";

// Counts the calls.
class Counter : public Observer {
 public:
  void on_training(const std::string& arm, std::uint64_t seed, std::int64_t total) override {
    events.push_back(str("train ", arm, ' ', seed, ' ', total));
  }
  void on_step(const run::StepReport& report) override { steps += report.step > 0; }
  void on_evaluation(const std::string& arm, data::Split split, std::int64_t segments) override {
    events.push_back(str("evaluate ", arm, ' ', data::to_word(split), ' ', segments));
  }
  void on_evaluated(std::int64_t segments, std::int64_t /*tokens*/) override { last = segments; }
  void on_done() override { ++done; }
  void on_result(const std::string& arm, const SeedResult& result) override {
    results.push_back(str(arm, ' ', result.seed, result.error ? " failed" : ""));
  }

  std::vector<std::string> events;
  std::vector<std::string> results;
  int steps = 0;
  int done = 0;
  std::int64_t last = 0;
};

class CompareTest : public ::testing::Test {
 protected:
  std::vector<ArmSetup> arms(const std::vector<config::Override>& overrides = {}) const {
    const auto memory = folder_.write("none.toml", "[memory]\n");
    return read_arms(folder_.write("tiny.toml", kTiny), {memory, memory}, overrides);
  }
  TemporaryFolder folder_;
};

TEST_F(CompareTest, NamesArmsAfterTheirFiles) {
  const auto setups = arms({{"train.lr", "0.01"}});
  ASSERT_EQ(setups.size(), 2U);
  EXPECT_EQ(setups[0].name, "none");
  EXPECT_EQ(setups[1].name, "none#2");
  EXPECT_EQ(setups[1].experiment.train.lr, 0.01);
}

TEST_F(CompareTest, NeedsAMemory) {
  const auto experiment = folder_.write("tiny.toml", kTiny);
  EXPECT_THAT(error_of([&] { static_cast<void>(read_arms(experiment, {}, {})); }),
              HasSubstr("2: compare: expected at least one --memory FILE"));
}

TEST_F(CompareTest, EqualArmsGiveEqualNumbers) {
  Counter counter;
  const Comparison out = compare(arms(), {}, counter);
  ASSERT_EQ(out.arms.size(), 2U);
  const SeedResult& a = out.arms[0].seeds.at(0);
  const SeedResult& b = out.arms[1].seeds.at(0);
  EXPECT_EQ(a.initial_sha256, b.initial_sha256);
  EXPECT_EQ(a.steps, 5);
  EXPECT_EQ(a.tokens, b.tokens);
  ASSERT_EQ(a.curve.size(), 3U);  // steps 2, 4 and the last
  EXPECT_EQ(a.curve.back().step, 5);
  EXPECT_EQ(a.curve.back().loss, b.curve.back().loss);
  EXPECT_EQ(a.splits.at(0).result.total.nll, b.splits.at(0).result.total.nll);
  EXPECT_EQ(out.alphabet, 8);
  EXPECT_EQ(counter.steps, 10);
  EXPECT_EQ(counter.done, 4);
  EXPECT_EQ(counter.last, 3);
  EXPECT_THAT(counter.events, ElementsAre("train none 1 5", "evaluate none valid 3",
                                          "train none#2 1 5", "evaluate none#2 valid 3"));
}

TEST_F(CompareTest, PartsAddUpToTheTotal) {
  Counter counter;
  const Comparison out = compare(arms(), {}, counter);
  const SplitResult& split = out.arms[0].seeds.at(0).splits.at(0);
  ASSERT_EQ(split.lanes.nll.size(), 4U);
  ASSERT_EQ(split.segments.nll.size(), 3U);
  for (const NllSums* sums : {&split.lanes, &split.segments}) {
    double nll = 0.0;
    std::int64_t targets = 0;
    for (const double part : sums->nll) nll += part;
    for (const std::int64_t part : sums->targets) targets += part;
    EXPECT_NEAR(nll, split.result.total.nll, 1e-9 * split.result.total.nll);
    EXPECT_EQ(targets, split.result.total.tokens);
  }
}

TEST_F(CompareTest, SeedsDiffer) {
  Counter counter;
  const Comparison out = compare(arms(), {.seeds = 2}, counter);
  const auto& seeds = out.arms[0].seeds;
  ASSERT_EQ(seeds.size(), 2U);
  EXPECT_EQ(seeds[0].seed, 1U);
  EXPECT_EQ(seeds[1].seed, 2U);
  EXPECT_NE(seeds[0].initial_sha256, seeds[1].initial_sha256);
  EXPECT_NE(seeds[0].splits.at(0).result.total.nll, seeds[1].splits.at(0).result.total.nll);
}

TEST_F(CompareTest, KeepsRunFolders) {
  Counter counter;
  static_cast<void>(compare(arms(), {.folder = folder_ / "runs"}, counter));
  for (const char* const name : {"none-seed1", "none#2-seed1"}) {
    EXPECT_TRUE(
        std::filesystem::exists(folder_ / "runs" / name / "checkpoints/step_00000005.safetensors"))
        << name;
    EXPECT_TRUE(std::filesystem::exists(folder_ / "runs" / name / "metrics.jsonl")) << name;
  }
}

TEST_F(CompareTest, RefusesArmsThatDoNotStartFromTheSameWeights) {
  auto setups = arms();
  setups[1].experiment.train.seed = 7;
  Counter counter;
  EXPECT_THAT(
      error_of([&] { static_cast<void>(compare(setups, {}, counter)); }),
      HasSubstr("1: none#2: none and none#2: their backbones do not start from the same weights"));
}

// Initial weights are compared before anything trains: no result can be lost by them.
TEST_F(CompareTest, ChecksInitialWeightsBeforeTraining) {
  auto setups = arms();
  setups[1].experiment.train.seed = 7;
  Counter counter;
  EXPECT_THROW(static_cast<void>(compare(setups, {}, counter)), Error);
  EXPECT_EQ(counter.steps, 0);
}

TEST_F(CompareTest, KeepsTheOtherArmsWhenOneDiverges) {
  auto setups = arms();
  setups[0].experiment.train.lr = 1e30;
  Counter counter;
  const Comparison out = compare(setups, {.seeds = 2, .folder = folder_ / "runs"}, counter);
  ASSERT_EQ(out.arms.size(), 2U);
  EXPECT_TRUE(out.has_failures());
  EXPECT_FALSE(out.is_interrupted);
  for (const SeedResult& seed : out.arms[0].seeds) {
    ASSERT_TRUE(seed.error.has_value());
    EXPECT_THAT(seed.error->what(), HasSubstr("the training reached numbers that are not finite"));
    EXPECT_TRUE(std::filesystem::exists(seed.folder / "metrics.jsonl"));
    EXPECT_TRUE(seed.splits.empty());
  }
  for (const SeedResult& seed : out.arms[1].seeds) {
    EXPECT_FALSE(seed.error.has_value());
    EXPECT_EQ(seed.steps, 5);
    EXPECT_EQ(seed.splits.size(), 1U);
  }
  EXPECT_GT(out.arms[0].backbone_parameters, 0);
  EXPECT_THAT(counter.results,
              ElementsAre("none 1 failed", "none 2 failed", "none#2 1", "none#2 2"));
}

// Ends the comparison at a step, as a signal does.
struct Stop {};
class Stopper final : public Counter {
 public:
  explicit Stopper(int at) : at_(at) {}
  void on_step(const run::StepReport& report) override {
    Counter::on_step(report);
    if (steps == at_) throw Stop{};
  }

 private:
  int at_;
};

TEST_F(CompareTest, HasWhatWasFinishedWhenItIsStopped) {
  const auto runs = folder_ / "runs";
  Stopper stopper(7);  // in the second arm
  Comparison out;
  EXPECT_THROW(compare(arms(), {.folder = runs}, stopper, out), Stop);
  EXPECT_TRUE(out.is_interrupted);
  ASSERT_EQ(out.arms.size(), 1U);
  EXPECT_EQ(out.arms[0].seeds.at(0).splits.size(), 1U);
  EXPECT_EQ(out.arms[0].seeds.at(0).folder, runs / "none-seed1");
  EXPECT_TRUE(std::filesystem::exists(runs / "none-seed1/checkpoints/step_00000005.safetensors"));
  EXPECT_FALSE(std::filesystem::exists(runs / "none#2-seed1"));
  EXPECT_THAT(table_text(out), HasSubstr("stopped before every arm and seed was done\n"));
  EXPECT_TRUE(to_json(out).at("interrupted").get<bool>());

  // In a second run existing folders are kept and new names are chosen.
  Counter counter;
  const Comparison again = compare(arms(), {.folder = runs}, counter);
  EXPECT_FALSE(again.has_failures());
  EXPECT_EQ(again.arms[0].seeds.at(0).folder, runs / "none-seed1-2");
  EXPECT_EQ(again.arms[1].seeds.at(0).folder, runs / "none#2-seed1");
}

TEST_F(CompareTest, LeavesNothingWhenItIsStoppedInItsFirstTraining) {
  Stopper stopper(2);
  Comparison out;
  EXPECT_THROW(compare(arms(), {.folder = folder_ / "runs"}, stopper, out), Stop);
  EXPECT_TRUE(out.arms.empty());
  EXPECT_FALSE(std::filesystem::exists(folder_ / "runs"));
  EXPECT_NO_THROW(static_cast<void>(to_json(out)));
}

TEST_F(CompareTest, NeedsSomethingToMeasureOn) {
  folder_.write("train.txt", std::string(2000, 'x'));
  const std::string text(kTiny);
  const auto data = text.find("[data]");
  const auto train = text.find("[train]");
  const auto experiment = folder_.write(
      "text.toml", text.substr(0, data) + "[data]\ntask = \"text\"\ntrain = \"train.txt\"\n" +
                       text.substr(train, text.find("[eval]") - train));
  const auto setups = read_arms(experiment, {folder_.write("none.toml", "[memory]\n")}, {});
  Counter counter;
  EXPECT_THAT(error_of([&] { static_cast<void>(compare(setups, {}, counter)); }),
              HasSubstr("2: data.valid: the experiment has no split to compare on"));
}

TEST_F(CompareTest, ChecksAllArmsBeforeTraining) {
  auto setups = arms();
  setups[1].experiment.memory.tiers.push_back({.plugin = "absent"});
  Counter counter;
  EXPECT_THAT(error_of([&] { static_cast<void>(compare(setups, {}, counter)); }),
              HasSubstr("3: none#2: "));
  EXPECT_EQ(counter.steps, 0);
}

}  // namespace
}  // namespace mneme::compare
