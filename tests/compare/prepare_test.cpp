#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "host/compare/runs.hpp"
#include "host/memory/abi/groups.hpp"
#include "host/tensor/device.hpp"
#include "host/train/trainer.hpp"
#include "tests/base/log_capture.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/base/tiny_motif.hpp"

namespace mneme::compare {
namespace {

using test::error_of;
using test::TemporaryFolder;
using ::testing::HasSubstr;

const std::string kTiny = test::tiny_model("0.1") + test::kMotifData + R"([train]
segment = 8
lanes = 4
steps = 5
eval_every = 2
tensorboard = false

[eval]
steps = 3
)";

class Prepare : public ::testing::Test {
 protected:
  Prepare() : loader_(memory::make_loader()) {}

  std::vector<ArmSetup> arms(const std::string& text = kTiny) {
    const auto memory = folder_.write("none.toml", "[memory]\n");
    return read_arms(folder_.write("tiny.toml", text), {{.memory = memory}, {.memory = memory}}, {},
                     {}, loader_);
  }
  Record prepared(const std::vector<ArmSetup>& arms, std::int64_t seeds = 1) {
    Options options{.folder = folder_ / "runs"};
    options.seeds = seeds;
    return prepare(arms, options, loader_);
  }

  TemporaryFolder folder_;
  plugin::PluginLoader loader_;
};

TEST_F(Prepare, NamesARunForEveryArmAndSeed) {
  const Record record = prepared(arms(), 2);
  ASSERT_EQ(record.arms.size(), 2U);
  EXPECT_EQ(record.arms[0].runs.at(0).folder, "none-seed1");
  EXPECT_EQ(record.arms[1].runs.at(1).folder, "none#2-seed2");
  EXPECT_EQ(record.seeds, (std::vector<std::uint64_t>{1, 2}));
  EXPECT_GT(record.arms[0].backbone_parameters, 0);
  EXPECT_FALSE(record.arms[0].runs[0].is_done());
  EXPECT_FALSE(std::filesystem::exists(folder_ / "runs"));  // nothing is written
}

// Arms train to their ends and are evaluated there: nothing that one of them did early may differ.
TEST_F(Prepare, LeavesOutEvaluationsWhileTraining) {
  auto setups = arms();
  for (ArmSetup& setup : setups) setup.experiment.train.early_stop = 3;
  const Record record = prepared(setups);
  EXPECT_EQ(record.arms[0].setup.experiment.train.eval_every, 0);
  EXPECT_EQ(record.arms[0].curve.every, 0);  // five steps: too short for one
  EXPECT_EQ(record.arms[0].setup.experiment.train.early_stop, 0);
}

TEST_F(Prepare, RefusesArmsThatDoNotStartFromTheSameWeights) {
  auto setups = arms();
  setups[1].experiment.train.seed = 7;
  EXPECT_THAT(
      error_of([&] { static_cast<void>(prepared(setups)); }),
      HasSubstr("1: none#2: none and none#2: their backbones do not start from the same weights"));
}

TEST_F(Prepare, NeedsSomethingToMeasureOn) {
  folder_.write("train.txt", std::string(2000, 'x'));
  const std::string& text = kTiny;
  const auto data = text.find("[data]");
  const auto train = text.find("[train]");
  const auto setups =
      arms(text.substr(0, data) + "[data]\ntask = \"text\"\ntrain = \"train.txt\"\n" +
           text.substr(train, text.find("[eval]") - train));
  EXPECT_THAT(error_of([&] { static_cast<void>(prepared(setups)); }),
              HasSubstr("2: data.valid: the experiment has no split to compare on"));
}

TEST_F(Prepare, MeasuresOnATestSplitThatIsSplitOff) {
  std::string lines;
  for (int i = 0; i < 400; ++i) lines += "a line of text\n";
  folder_.write("train.txt", lines);
  const auto splits_with = [&](const std::string& shares) {
    const std::string& text = kTiny;
    const auto data = text.find("[data]");
    return prepared(arms(text.substr(0, data) +
                         "[data]\ntask = \"text\"\ntrain = \"train.txt\"\nsplit = " + shares +
                         "\n" + text.substr(text.find("[train]"))))
        .splits;
  };
  EXPECT_EQ(splits_with("[0.5, 0.25, 0.25]"),
            (std::vector<data::Split>{data::Split::kValid, data::Split::kTest}));
  EXPECT_EQ(splits_with("[0.75, 0.25, 0.0]"), std::vector<data::Split>{data::Split::kValid});
  EXPECT_EQ(prepared(arms()).splits, std::vector<data::Split>{data::Split::kValid});
}

TEST_F(Prepare, SaysThatDocumentsAreTooFewToBeUnits) {
  std::string lines;
  for (int i = 0; i < 400; ++i) lines += "a line of text\n";
  folder_.write("train.txt", lines);
  folder_.write("valid.txt", lines);
  const auto said = [&](const std::string& documents) {
    const std::string& text = kTiny;
    const test::LogCapture log;
    prepared(arms(text.substr(0, text.find("[data]")) +
                  "[data]\ntask = \"text\"\ntrain = \"train.txt\"\nvalid = \"valid.txt\"\n" +
                  documents + text.substr(text.find("[train]"))));
    return log.text();
  };
  EXPECT_THAT(said(""), HasSubstr("the valid split has 1 document, fewer than 10: units of its "
                                  "differences will be blocks of its tokens"));
  EXPECT_THAT(said("documents = \"line\"\n"), testing::Not(HasSubstr("fewer than 10")));
}

TEST_F(Prepare, MakesEveryArm) {
  auto setups = arms();
  setups[1].experiment.memory.tiers.push_back({.plugin = "absent"});
  EXPECT_THAT(error_of([&] { static_cast<void>(prepared(setups)); }), HasSubstr("3: none#2: "));
}

// A training would refuse these, too, each arm in its own.
TEST_F(Prepare, RefusesWhatLeavesParametersWithoutARule) {
  const auto error_with = [&](const std::string& train, const std::string& more = "") {
    std::string text = kTiny + more;
    text.insert(text.find("[eval]") - 1, train);
    return error_of([&] { static_cast<void>(prepared(arms(text))); });
  };
  EXPECT_THAT(error_with("optimizer = \"muon\"\n",
                         "[[train.group]]\nparameters = [\"model.*\"]\noptimizer = \"muon\"\n"),
              testing::StartsWith("2: none: train.group 1: optimizer: Muon cannot update model."));
  EXPECT_THAT(error_with("", "[[train.group]]\nparameters = [\"memory.*\"]\nlr = 1e-3\n"),
              HasSubstr("2: none: train.group 1: parameters: \"memory.*\" names no parameter"));
  EXPECT_THAT(error_with("freeze = \"backbone\"\n"),
              HasSubstr("2: none: train.freeze = \"backbone\": nothing is trained"));
}

TEST_F(Prepare, NeedsArmsAndSeeds) {
  EXPECT_THAT(error_of([&] { static_cast<void>(prepared({})); }),
              HasSubstr("2: compare: expected at least one memory, got none"));
  EXPECT_THAT(error_of([&] { static_cast<void>(prepared(arms(), 0)); }),
              HasSubstr("2: compare: seeds: expected at least 1, got 0"));
}

// A run of the same experiment is continued; one of another experiment keeps its folder.
TEST_F(Prepare, ChoosesTheFolderOfAnEqualRun) {
  const Record before = prepared(arms());
  const auto train = [&](config::Experiment experiment, const std::string& name) {
    train::TrainerOptions options{.folder = folder_ / "runs" / name};
    train::Trainer(experiment, std::move(options)).train();
  };
  config::Experiment other = before.arms[0].setup.experiment;
  other.train.lr = 0.5;
  train(other, "none-seed1");
  {
    const test::LogCapture log;
    EXPECT_EQ(prepared(arms()).arms[0].runs.at(0).folder, "none-seed1-2");
    EXPECT_THAT(log.text(), HasSubstr("none-seed1 is left alone: it was trained in another "
                                      "experiment; a new run takes its place in the report\n"));
  }
  train(before.arms[0].setup.experiment, "none-seed1-2");
  const Record after = prepared(arms());
  EXPECT_EQ(after.arms[0].runs.at(0).folder, "none-seed1-2");
  EXPECT_EQ(after.arms[1].runs.at(0).folder, "none#2-seed1");
}

// The same command with another number of threads trains anew: numbers depend on it.
TEST_F(Prepare, SaysWhyRunsAreNotTaken) {
  const Record before = prepared(arms(), 2);
  for (const ArmRecord& arm : before.arms) {
    for (const RunRecord& run : arm.runs) {
      config::Experiment experiment = arm.setup.experiment;
      experiment.train.seed = run.seed;
      train::TrainerOptions options{.folder = folder_ / "runs" / run.folder};
      train::Trainer(experiment, std::move(options)).train();
    }
  }
  Options options{.folder = folder_ / "runs"};
  options.seeds = 2;
  const std::int64_t threads = tensor::threads();
  tensor::set_threads(threads + 1);
  const test::LogCapture log;
  EXPECT_EQ(prepare(arms(), options, loader_).arms[0].runs.at(0).folder, "none-seed1-2");
  EXPECT_THAT(
      log.text(),
      HasSubstr(str("none-seed1 and 3 more are left alone: they were trained with threads = ",
                    threads, " instead of ", threads + 1, "; new runs take their places")));
  tensor::set_threads(threads);
  options.initial_weights_sha256 = "abc";
  static_cast<void>(prepare(arms(), options, loader_));
  EXPECT_THAT(log.text(), HasSubstr("they were trained from other initial weights; new runs"));
}

// A process that was killed while it made its folder leaves one without an experiment.
TEST_F(Prepare, TakesTheFolderOfARunThatNeverBegan) {
  std::filesystem::create_directories(folder_ / "runs/none-seed1");
  folder_.write("runs/none-seed1/run.json", "{}");
  EXPECT_EQ(prepared(arms()).arms[0].runs.at(0).folder, "none-seed1");
  folder_.write("runs/none-seed1/experiment.toml", "something else");
  EXPECT_EQ(prepared(arms()).arms[0].runs.at(0).folder, "none-seed1-2");
}

}  // namespace
}  // namespace mneme::compare
