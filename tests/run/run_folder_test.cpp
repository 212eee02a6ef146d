#include "host/run/run_folder.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "host/base/file/file.hpp"
#include "host/run/checkpoint/checkpoint.hpp"
#include "host/run/record/run_summary.hpp"
#include "host/run/record/run_writer.hpp"
#include "host/tensor/torch.hpp"
#include "host/train/trainer.hpp"
#include "tests/base/damaged_tensor.hpp"
#include "tests/base/file_size_limit.hpp"
#include "tests/base/log_capture.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/run/run_compare.hpp"
#include "tests/run/run_support.hpp"

namespace mneme::train {
namespace {

using test::error_of;
using test::infini;
using test::is_same;
using test::small_experiment;
using test::timeless_metrics;
using test::weights_of;
using test::xl_cache;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

TrainerOptions in_folder(const std::filesystem::path& path) {
  TrainerOptions options;
  options.folder = path;
  return options;
}

std::vector<Json> lines_of(const std::filesystem::path& path) {
  std::istringstream in(read_file(path));
  std::vector<Json> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(Json::parse(line));
  return lines;
}

class RunFolderRecorder : public run::Observer {
 public:
  void on_step(const run::StepReport& report) override { steps.push_back(report); }
  void on_eval(const run::EvalReport& report) override { evaluations.push_back(report); }
  void on_checkpoint(std::int64_t step, const std::filesystem::path&) override {
    checkpoints.push_back(step);
  }
  std::vector<run::StepReport> steps;
  std::vector<run::EvalReport> evaluations;
  std::vector<std::int64_t> checkpoints;
};

class RunFolderStopAt : public run::Observer {
 public:
  explicit RunFolderStopAt(std::int64_t step) : step_(step) {}
  void on_step(const run::StepReport& report) override {
    if (report.step == step_) throw Error(ErrorKind::kRun, "stopped by the test");
  }

 private:
  std::int64_t step_;
};

// A run in `path` that was stopped after `step` steps.
void stopped_run(const config::Experiment& experiment, const std::filesystem::path& path,
                 std::int64_t step) {
  Trainer trainer(experiment, in_folder(path));
  RunFolderStopAt stop(step);
  EXPECT_THAT(error_of([&] { trainer.train(&stop); }), HasSubstr("stopped by the test"));
}

TEST(RunFolder, TellsOfAnEvaluationThatCannotBeWritten) {
  const test::TemporaryFolder folder;
  Trainer trainer(
      small_experiment("", {"train.steps=4", "train.eval_every=2", "train.log_every=0"}),
      in_folder(folder / "run"));
  RunFolderRecorder recorder;
  std::string error;
  {
    const test::FileSizeLimit full(0);
    error = error_of([&] { trainer.train(&recorder); });
  }
  EXPECT_THAT(error, HasSubstr("metrics.jsonl: cannot append: File too large"));
  ASSERT_EQ(recorder.evaluations.size(), 1U);
  EXPECT_EQ(recorder.evaluations[0].step, 2);
}

TEST(RunFolder, HoldsARun) {
  const test::TemporaryFolder folder;
  const auto experiment =
      small_experiment(xl_cache(12), {"train.eval_every=3", "train.save_every=5"});
  RunFolderRecorder recorder;
  Trainer trainer(experiment, in_folder(folder / "run"));
  trainer.train(&recorder);
  EXPECT_EQ(recorder.steps.size(), 8U);
  EXPECT_EQ(recorder.evaluations.size(), 3U);  // steps 3, 6, 8
  // Every lower loss of the valid split is kept, and every fifth step.
  EXPECT_THAT(recorder.checkpoints, testing::IsSupersetOf({5, 8}));
  const run::RunFolder run = run::RunFolder::open(folder / "run");
  EXPECT_EQ(run.experiment(), experiment);
  EXPECT_EQ(run::Checkpoint::open(run.checkpoint()).progress().step, 8);
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
  // The mean of the steps since the line before.
  EXPECT_NEAR(lines[0].at("loss"), (recorder.steps[0].loss + recorder.steps[1].loss) / 2, 1e-9);
  EXPECT_EQ(lines.back().at("kind"), "eval");
  EXPECT_EQ(lines.back().at("result").at("loss"), recorder.evaluations.back().result.loss());
}

TEST(RunFolder, GivesARunForEvaluation) {
  const test::TemporaryFolder folder;
  Trainer trainer(small_experiment(xl_cache(12)), in_folder(folder / "run"));
  trainer.train();
  const auto runtime = run::open_run(folder / "run", {});
  EXPECT_TRUE(is_same(weights_of(trainer.runtime()), weights_of(*runtime)));
  EXPECT_EQ(runtime->evaluate_split(data::Split::kTest).loss(),
            trainer.evaluate_split(data::Split::kTest).loss());
  const auto none = run::open_run(folder / "run", {}, config::MemoryConfig{});
  EXPECT_TRUE(none->stack().is_empty());
  EXPECT_NE(none->evaluate_split(data::Split::kTest).loss(),
            trainer.evaluate_split(data::Split::kTest).loss());
  const config::MemoryConfig other = small_experiment(infini()).memory;
  EXPECT_THAT(error_of([&] { static_cast<void>(run::open_run(folder / "run", {}, other)); }),
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
  Trainer trainer(small_experiment("", word), in_folder(folder / "run"));
  trainer.train();
  folder.write("train.txt", "entirely different words would make another vocabulary\n");
  const auto runtime = run::open_run(folder / "run", {});
  EXPECT_EQ(*runtime->dataset()->vocabulary(), *trainer.runtime().dataset()->vocabulary());
  EXPECT_TRUE(is_same(weights_of(trainer.runtime()), weights_of(*runtime)));
}

TEST(RunFolder, IsSummarizedThoughPartsAreDamaged) {
  const test::TemporaryFolder folder;
  stopped_run(small_experiment("", {"train.save_every=2"}), folder / "run", 4);
  const run::RunFolder run = run::RunFolder::open(folder / "run");
  const std::string whole = read_file(run.metrics());  // steps 2 and 4
  folder.write("run/metrics.jsonl", whole +
                                        "{\"kind\": 5, \"step\": 5}\n"
                                        "{\"kind\": \"eval\", \"split\": null}\n"
                                        "[]\n{\"kind\": \"st");
  std::filesystem::create_directory(run.checkpoints().path_of(9));
  const run::RunSummary summary = run::summarize(run);
  EXPECT_EQ(summary.metrics.lines, 6);
  EXPECT_EQ(summary.metrics.damaged_lines, 4);
  EXPECT_EQ(summary.metrics.last_step.at("step"), 4);
  EXPECT_TRUE(summary.metrics.last_eval.empty());
  ASSERT_EQ(summary.checkpoints.size(), 2U);
  EXPECT_EQ(summary.checkpoints[0].problem, "");
  EXPECT_GT(summary.checkpoints[0].bytes, 0U);
  EXPECT_THAT(summary.checkpoints[1].problem, HasSubstr("got a folder"));
  EXPECT_EQ(summary.checkpoints[1].bytes, 0U);
}

TEST(RunFolder, ContinuesAnInterruptedRun) {
  const test::TemporaryFolder folder;
  const auto experiment = small_experiment(xl_cache(12), {"train.save_every=3"});
  Trainer whole(experiment, in_folder(folder / "whole"));
  whole.train();
  {
    Trainer broken(experiment, in_folder(folder / "broken"));
    class Stop : public run::Observer {
      void on_step(const run::StepReport& report) override {
        if (report.step == 5) throw Error(ErrorKind::kRun, "stopped by the test");
      }
    } stop;
    EXPECT_THAT(error_of([&] { broken.train(&stop); }), HasSubstr("stopped by the test"));
  }
  const auto resumed = Trainer::resume(folder / "broken");
  EXPECT_EQ(resumed->step(), 3);
  resumed->train();
  EXPECT_TRUE(is_same(weights_of(whole.runtime()), weights_of(resumed->runtime())));
  EXPECT_EQ(timeless_metrics(folder / "broken"), timeless_metrics(folder / "whole"));
}

TEST(RunFolder, RefusesFoldersThatAreNotWhatTheyShouldBe) {
  const test::TemporaryFolder folder;
  const auto experiment = small_experiment();
  { const Trainer first(experiment, in_folder(folder / "run")); }
  EXPECT_THAT(error_of([&] { Trainer again(experiment, in_folder(folder / "run")); }),
              AllOf(StartsWith("2: "), HasSubstr("already holds a run")));
  folder.write("file", "text");
  EXPECT_THAT(error_of([&] { Trainer in_file(experiment, in_folder(folder / "file")); }),
              AllOf(StartsWith("2: "), HasSubstr("got a file")));
  EXPECT_THAT(error_of([&] { Trainer below(experiment, in_folder(folder / "file/run")); }),
              AllOf(StartsWith("1: "), HasSubstr("cannot be made")));
  EXPECT_THAT(error_of([&] { static_cast<void>(run::RunFolder::open(folder / "absent")); }),
              AllOf(StartsWith("2: "), HasSubstr("no such folder;")));
  EXPECT_THAT(error_of([&] { static_cast<void>(run::RunFolder::open(folder / "rnu")); }),
              HasSubstr(str("no such folder (did you mean ", folder / "run", "?);")));
  EXPECT_THAT(error_of([&] { static_cast<void>(run::RunFolder::open(folder.path())); }),
              HasSubstr("got no experiment.toml"));
  EXPECT_THAT(error_of([&] { static_cast<void>(run::open_run(folder / "run", {})); }),
              AllOf(StartsWith("2: "), HasSubstr("the run has no checkpoint")));
  folder.write("run/run.json", "{");
  EXPECT_THAT(error_of([&] { static_cast<void>(run::RunFolder::open(folder / "run").info()); }),
              AllOf(StartsWith("1: "), HasSubstr("does not describe a run")));
  folder.write("run/run.json", "{\"data\": {}}");
  EXPECT_THAT(error_of([&] { static_cast<void>(run::RunFolder::open(folder / "run").info()); }),
              AllOf(HasSubstr("does not describe a run"), HasSubstr("plugins")));
  for (const char* const continued : {"[]", "{}", "[3]"}) {
    folder.write("run/run.json",
                 str(R"({"data": {}, "plugins": [], "continued": )", continued, "}"));
    EXPECT_THAT(
        error_of([&] { static_cast<void>(run::RunFolder::open(folder / "run").info()); }),
        AllOf(StartsWith("1: "), HasSubstr("does not describe a run"), HasSubstr("continued")));
  }
}

// The folder of a plugin's project, or of prepared data; other files may lie beside a run's.
TEST(RunFolder, WritesOverNoFileOfOthers) {
  const test::TemporaryFolder folder;
  const auto experiment = small_experiment();
  for (const char* const name : {"experiment.toml", "vocabulary.json"}) {
    const std::string project = str("project of ", name);
    std::filesystem::create_directories(folder / project);
    folder.write(str(project, '/', name), "theirs");
    EXPECT_THAT(
        error_of([&] { Trainer trainer(experiment, in_folder(folder / project)); }),
        AllOf(StartsWith("2: "), HasSubstr("the folder is no run and holds "),
              HasSubstr(str(name, ", which a run would write over")), Not(HasSubstr("remove"))));
    EXPECT_EQ(read_file(folder / project / name), "theirs");
  }
  std::filesystem::create_directories(folder / "logs");
  folder.write("logs/slurm-1.out", "");
  const Trainer beside(experiment, in_folder(folder / "logs"));
}

TEST(RunFolder, BelongsToOneSession) {
  const test::TemporaryFolder folder;
  const auto experiment = small_experiment();
  const Trainer first(experiment, in_folder(folder / "run"));
  const auto in_use = AllOf(StartsWith("2: "), HasSubstr("in use"), HasSubstr(str(::getpid())));
  EXPECT_THAT(error_of([&] { Trainer again(experiment, in_folder(folder / "run")); }), in_use);
  EXPECT_THAT(error_of([&] { Trainer::resume(folder / "run"); }), in_use);
}

// Of two processes that make the same folder one is refused, and leaves the other its lock.
TEST(RunFolder, KeepsTheLockOfAnotherProcessThatWasFaster) {
  const test::TemporaryFolder folder;
  const run::Runtime runtime(small_experiment(), {});
  bool was_faster = false;
  for (int i = 0; i < 300 && !was_faster; ++i) {
    const std::filesystem::path run = folder / str("run", i);
    std::unique_ptr<run::RunLock> theirs;
    std::atomic<bool> is_running = false, is_over = false;
    std::thread other([&] {
      is_running = true;
      while (!theirs && !is_over) {
        if (::access(run.c_str(), F_OK) != 0) continue;
        static_cast<void>(error_of([&] { theirs = std::make_unique<run::RunLock>(run); }));
      }
    });
    while (!is_running) continue;
    const std::string error =
        error_of([&] { static_cast<void>(run::RunWriter::create(run, runtime)); });
    is_over = true;
    other.join();
    was_faster = error != "no error";
    if (!was_faster) continue;
    EXPECT_THAT(error, HasSubstr("the run's folder is in use"));
    EXPECT_TRUE(std::filesystem::exists(run / "lock"));
  }
  if (!was_faster) GTEST_SKIP() << "the other one never came first";
}

TEST(RunFolder, IsNeededToSaveWithoutAPath) {
  Trainer trainer(small_experiment());
  EXPECT_THAT(error_of([&] { trainer.save(); }),
              AllOf(StartsWith("2: "), HasSubstr("the trainer has no folder")));
}

TEST(RunFolder, HasTheLogOfARun) {
  const test::TemporaryFolder folder;
  const std::filesystem::path run = folder / "run";
  const config::Experiment experiment = small_experiment("", {"train.save_every=2"});
  test::LogCapture capture;
  TrainerOptions options;
  options.claim_folder = [&] {
    log_warning("while the run is made");
    return run;
  };
  {
    Trainer trainer(experiment, std::move(options));
    log_info("while it trains");
    for (int i = 0; i < 4; ++i) {
      trainer.train_step();
      if (i % 2 == 1) trainer.save();
    }
  }
  log_info("after it");
  const std::string first = read_file(run / "log.txt");
  EXPECT_THAT(first, AllOf(HasSubstr("Z warning while the run is made\n"),
                           HasSubstr("Z info while it trains\n"), Not(HasSubstr("after it"))));
  TrainerOptions absent;
  absent.checkpoint = "7";
  EXPECT_NE(error_of([&] { Trainer::resume(run, std::move(absent)); }), "no error");
  EXPECT_EQ(read_file(run / "log.txt"), first) << "a failed resume changes nothing";
  TrainerOptions earlier;
  earlier.checkpoint = "2";
  Trainer::resume(run, std::move(earlier))->train();
  EXPECT_THAT(read_file(run / "log.txt"),
              AllOf(StartsWith(first), HasSubstr("deleted the checkpoint of step 4")));
  EXPECT_TRUE(run::summarize(run::RunFolder::open(run)).damaged_parts().empty());
}

TEST(RunFolder, IsTrainedWithoutALogThatCannotBeWritten) {
  const test::TemporaryFolder folder;
  std::filesystem::create_directories(folder / "run/log.txt");  // in the way
  test::LogCapture capture;
  Trainer trainer(small_experiment(), in_folder(folder / "run"));
  trainer.train();
  EXPECT_TRUE(trainer.is_finished());
  EXPECT_THAT(capture.text(), HasSubstr("log.txt: the log is not written to it"));
}

TEST(RunFolder, LeavesNothingWhenItCannotBeWritten) {
  const test::TemporaryFolder folder;
  std::filesystem::create_directories(folder / "run/metrics.jsonl");  // in the way
  EXPECT_THAT(error_of([&] { Trainer s(small_experiment(), in_folder(folder / "run")); }),
              AllOf(StartsWith("2: "), HasSubstr("holds metrics.jsonl")));
  EXPECT_FALSE(std::filesystem::exists(folder / "run/run.json"));
  EXPECT_FALSE(std::filesystem::exists(folder / "run/experiment.toml"));
}

TEST(RunFolder, IsClearedOfWhatKilledProcessesLeft) {
  const test::TemporaryFolder folder;
  stopped_run(small_experiment("", {"train.save_every=2"}), folder / "run", 3);
  const std::vector<std::string> left = {"run/.run.json.123-4.tmp",
                                         "run/checkpoints/.step_00000004.safetensors.123-4.tmp"};
  for (const std::string& name : left) folder.write(name, "half");
  folder.write("run/.mine.123-4.tmp", "not ours");
  Trainer::resume(folder / "run")->train();
  for (const std::string& name : left) EXPECT_FALSE(std::filesystem::exists(folder / name)) << name;
  EXPECT_TRUE(std::filesystem::exists(folder / "run/.mine.123-4.tmp"));
}

TEST(RunFolder, KeepsTheNewestCheckpointsAndTheBest) {
  const test::TemporaryFolder folder;
  // The rate grows until the loss does too: the best evaluation lies in the middle.
  const auto experiment = small_experiment(
      "", {"train.eval_every=2", "train.save_every=1", "train.keep_checkpoints=2", "train.steps=14",
           "train.lr=3.0", "train.schedule=constant", "train.warmup=14"});
  Trainer trainer(experiment, in_folder(folder / "run"));
  trainer.train();
  const std::int64_t best = trainer.valid_record().best_step;
  ASSERT_GT(best, 0);
  ASSERT_LT(best, 13);
  const run::RunFolder run = run::RunFolder::open(folder / "run");
  EXPECT_THAT(run.checkpoints().steps(), testing::ElementsAre(best, 13, 14));
  EXPECT_EQ(run.checkpoint("last"), run.checkpoints().path_of(14));
  EXPECT_EQ(run.checkpoint("best"), run.checkpoints().path_of(best));
  EXPECT_EQ(run.checkpoint("13"), run.checkpoints().path_of(13));
  EXPECT_THAT(error_of([&] { static_cast<void>(run.checkpoint("7")); }),
              AllOf(StartsWith("2: "), HasSubstr("no checkpoint 7"), HasSubstr("13, 14")));
  EXPECT_THAT(error_of([&] { static_cast<void>(run.checkpoint("newest")); }),
              AllOf(HasSubstr("no checkpoint newest"), HasSubstr("\"best\"")));
  const auto runtime = run::open_run(folder / "run", {}, std::nullopt, "best");
  EXPECT_EQ(runtime->evaluate_split(data::Split::kValid).loss(), trainer.valid_record().best_loss);
}

TEST(RunFolder, HasNoBestBeforeAnEvaluation) {
  const test::TemporaryFolder folder;
  stopped_run(small_experiment("", {"train.save_every=2"}), folder / "run", 3);
  EXPECT_THAT(
      error_of([&] { static_cast<void>(run::RunFolder::open(folder / "run").checkpoint("best")); }),
      AllOf(StartsWith("2: "), HasSubstr("has not evaluated its valid split")));
}

TEST(RunFolder, ContinuesFromAnEarlierCheckpoint) {
  const test::TemporaryFolder folder;
  const auto experiment = small_experiment(
      xl_cache(12), {"train.eval_every=2", "train.save_every=2", "train.keep_checkpoints=5"});
  std::vector<at::Tensor> weights;
  {
    Trainer whole(experiment, in_folder(folder / "run"));
    whole.train();
    weights = weights_of(whole.runtime());
  }
  const auto expected = timeless_metrics(folder / "run");
  std::filesystem::rename(folder / "run", folder / "moved");  // a run may be moved
  TrainerOptions options;
  options.checkpoint = "4";
  const auto resumed = Trainer::resume(folder / "moved", std::move(options));
  EXPECT_EQ(resumed->step(), 4);
  EXPECT_THAT(run::RunFolder::open(folder / "moved").checkpoints().steps(),
              testing::ElementsAre(2, 4));
  resumed->train();
  EXPECT_TRUE(is_same(weights, weights_of(resumed->runtime())));
  EXPECT_EQ(timeless_metrics(folder / "moved"), expected);
  const Json info = run::RunFolder::open(folder / "moved").info();
  EXPECT_EQ(info.at("continued").at(0).at("step"), 4);
}

TEST(RunFolder, OffersTheCheckpointBeforeADamagedOne) {
  const test::TemporaryFolder folder;
  const auto experiment = small_experiment(
      "", {"train.save_every=2", "train.keep_checkpoints=3", "train.eval_every=0"});
  stopped_run(experiment, folder / "run", 7);
  const run::RunFolder run = run::RunFolder::open(folder / "run");
  for (const std::int64_t step : {6, 4}) {
    test::damage_tensor(run.checkpoints().path_of(step), "model.embedding.0.weight");
  }
  const std::string path = (folder / "run").string();
  EXPECT_THAT(error_of([&] { Trainer::resume(folder / "run"); }),
              AllOf(StartsWith("1: "), HasSubstr("step_00000006.safetensors: tensor"),
                    HasSubstr("the checkpoint of step 2 is whole: mneme train --resume " + path +
                              " --checkpoint 2")));
  EXPECT_THAT(error_of([&] { static_cast<void>(run::open_run(folder / "run", {})); }),
              HasSubstr("mneme eval " + path + " --checkpoint 2"));
  // The newest checkpoint's metadata knows which one is the best.
  const auto best = [&] {
    return error_of([&] { static_cast<void>(run::open_run(folder / "run", {}, {}, "best")); });
  };
  EXPECT_THAT(best(), HasSubstr("the run has not evaluated its valid split"));
  std::string bytes = read_file(run.checkpoints().path_of(6));
  char& digit = bytes[bytes.find("\"tokens\":\"") + 10];
  digit = static_cast<char>(digit ^ 1);
  write_file_atomic(run.checkpoints().path_of(6), bytes);
  EXPECT_THAT(best(), AllOf(HasSubstr("step_00000006.safetensors: metadata"),
                            HasSubstr("mneme eval " + path + " --checkpoint 2")));
  TrainerOptions options;
  options.checkpoint = "2";
  {
    const auto trainer = Trainer::resume(folder / "run", std::move(options));
    EXPECT_EQ(trainer->step(), 2);
    EXPECT_THAT(run.checkpoints().steps(), testing::ElementsAre(2));
    trainer->train();
  }
  std::filesystem::remove(run.checkpoints().path_of(6));
  std::filesystem::remove(run.checkpoints().path_of(4));
  write_file_atomic(run.checkpoints().path_of(8), "no checkpoint");
  EXPECT_THAT(error_of([&] { Trainer::resume(folder / "run"); }),
              HasSubstr("there is no whole checkpoint before it"));
}

}  // namespace
}  // namespace mneme::train
