#include "host/train/run_folder.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "host/base/file.hpp"
#include "host/torch.hpp"
#include "host/train/checkpoint.hpp"
#include "host/train/session.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/train/run_support.hpp"

namespace mneme::train {
namespace {

using test::error_of;
using test::infini;
using test::is_same;
using test::small_experiment;
using test::weights_of;
using test::xl_cache;
using testing::HasSubstr;
using testing::StartsWith;

SessionOptions in_folder(const std::filesystem::path& path) {
  SessionOptions options;
  options.folder = path;
  return options;
}

std::vector<Json> lines_of(const std::filesystem::path& path) {
  std::istringstream in(read_file(path));
  std::vector<Json> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(Json::parse(line));
  return lines;
}

class Recorder : public Observer {
 public:
  void on_step(const StepReport& report) override { steps.push_back(report); }
  void on_eval(const EvalReport& report) override { evaluations.push_back(report); }
  void on_checkpoint(std::int64_t step, const std::filesystem::path&) override {
    checkpoints.push_back(step);
  }
  std::vector<StepReport> steps;
  std::vector<EvalReport> evaluations;
  std::vector<std::int64_t> checkpoints;
};

TEST(RunFolder, HoldsARun) {
  const test::TemporaryFolder folder;
  const auto experiment =
      small_experiment(xl_cache(12), {"train.eval_every=3", "train.save_every=5"});
  Recorder recorder;
  Session session(experiment, in_folder(folder / "run"));
  session.train(&recorder);
  EXPECT_EQ(recorder.steps.size(), 8U);
  EXPECT_EQ(recorder.evaluations.size(), 3U);  // steps 3, 6, 8
  EXPECT_THAT(recorder.checkpoints, testing::ElementsAre(5, 8));
  const RunFolder run = RunFolder::open(folder / "run");
  EXPECT_EQ(run.experiment(), experiment);
  EXPECT_EQ(Checkpoint::open(run.checkpoint()).progress().step, 8);
  EXPECT_FALSE(run.vocabulary().has_value());
  const Json info = run.info();
  EXPECT_EQ(info.at("seed"), 1);
  EXPECT_EQ(info.at("data").at("task"), "motif");
  EXPECT_EQ(info.at("plugins").at(0).at("sha256").get<std::string>().size(), 64U);
  EXPECT_FALSE(info.at("processor").get<std::string>().empty());
  const auto lines = lines_of(run.metrics());
  ASSERT_EQ(lines.size(), 4U + 3U);  // every second step, and the evaluations
  EXPECT_EQ(lines[0].at("kind"), "step");
  EXPECT_EQ(lines[0].at("step"), 2);
  EXPECT_EQ(lines[0].at("loss"), recorder.steps[1].loss);
  EXPECT_EQ(lines.back().at("kind"), "eval");
  EXPECT_EQ(lines.back().at("result").at("loss"), recorder.evaluations.back().result.loss());
}

TEST(RunFolder, GivesARunForEvaluation) {
  const test::TemporaryFolder folder;
  Session session(small_experiment(xl_cache(12)), in_folder(folder / "run"));
  session.train();
  const auto runtime = open_run(folder / "run", {});
  EXPECT_TRUE(is_same(weights_of(session.runtime()), weights_of(*runtime)));
  EXPECT_EQ(runtime->evaluate(data::Split::kTest).loss(),
            session.evaluate(data::Split::kTest).loss());
  const auto none = open_run(folder / "run", {}, config::MemoryConfig{});
  EXPECT_TRUE(none->stack().is_empty());
  EXPECT_NE(none->evaluate(data::Split::kTest).loss(), session.evaluate(data::Split::kTest).loss());
  const config::MemoryConfig other = small_experiment(infini()).memory;
  EXPECT_THAT(error_of([&] { static_cast<void>(open_run(folder / "run", {}, other)); }),
              HasSubstr("belongs to another model"));
}

TEST(RunFolder, KeepsTheVocabularyOfText) {
  const test::TemporaryFolder folder;
  const auto text = folder.write("train.txt", "the cat sat on the mat and the cat saw the rat\n");
  const std::vector<std::string> word = {"data.task=text",
                                         "data.vocabulary=word",
                                         "data.train=" + text.string(),
                                         "train.lanes=1",
                                         "data.test=" + text.string(),
                                         "train.segment=3",
                                         "train.steps=2",
                                         "eval.steps=0"};
  Session session(small_experiment("", word), in_folder(folder / "run"));
  session.train();
  folder.write("train.txt", "entirely different words would make another vocabulary\n");
  const auto runtime = open_run(folder / "run", {});
  EXPECT_EQ(*runtime->dataset()->vocabulary(), *session.runtime().dataset()->vocabulary());
  EXPECT_TRUE(is_same(weights_of(session.runtime()), weights_of(*runtime)));
}

TEST(RunFolder, ContinuesAnInterruptedRun) {
  const test::TemporaryFolder folder;
  const auto experiment = small_experiment(xl_cache(12), {"train.save_every=3"});
  Session whole(experiment, in_folder(folder / "whole"));
  whole.train();
  {
    Session broken(experiment, in_folder(folder / "broken"));
    class Stop : public Observer {
      void on_step(const StepReport& report) override {
        if (report.step == 5) throw Error(ErrorKind::kRun, "stopped by the test");
      }
    } stop;
    EXPECT_THAT(error_of([&] { broken.train(&stop); }), HasSubstr("stopped by the test"));
  }
  const auto resumed = Session::resume(folder / "broken");
  EXPECT_EQ(resumed->step(), 3);
  resumed->train();
  EXPECT_TRUE(is_same(weights_of(whole.runtime()), weights_of(resumed->runtime())));
  const auto expected = lines_of(folder / "whole/metrics.jsonl");
  const auto got = lines_of(folder / "broken/metrics.jsonl");
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(got[i].value("loss", 0.0), expected[i].value("loss", 0.0));
    EXPECT_EQ(got[i].at("step"), expected[i].at("step"));
  }
}

TEST(RunFolder, RefusesFoldersThatAreNotWhatTheyShouldBe) {
  const test::TemporaryFolder folder;
  const auto experiment = small_experiment();
  const Session first(experiment, in_folder(folder / "run"));
  EXPECT_THAT(error_of([&] { Session again(experiment, in_folder(folder / "run")); }),
              testing::AllOf(StartsWith("2: "), HasSubstr("already holds a run")));
  folder.write("file", "text");
  EXPECT_THAT(error_of([&] { Session in_file(experiment, in_folder(folder / "file")); }),
              testing::AllOf(StartsWith("2: "), HasSubstr("got a file")));
  EXPECT_THAT(error_of([&] { Session below(experiment, in_folder(folder / "file/run")); }),
              testing::AllOf(StartsWith("1: "), HasSubstr("cannot be made")));
  EXPECT_THAT(error_of([&] { static_cast<void>(RunFolder::open(folder / "absent")); }),
              testing::AllOf(StartsWith("2: "), HasSubstr("no such folder")));
  EXPECT_THAT(error_of([&] { static_cast<void>(RunFolder::open(folder.path())); }),
              HasSubstr("got no experiment.toml"));
  EXPECT_THAT(error_of([&] { static_cast<void>(open_run(folder / "run", {})); }),
              testing::AllOf(StartsWith("2: "), HasSubstr("the run has no checkpoint")));
  folder.write("run/run.json", "{");
  EXPECT_THAT(error_of([&] { static_cast<void>(RunFolder::open(folder / "run").info()); }),
              HasSubstr("it is no JSON"));
}

}  // namespace
}  // namespace mneme::train
