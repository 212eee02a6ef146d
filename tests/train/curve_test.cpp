// The learning curve, and the mean of the losses between two lines of the metrics.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "host/base/file/safetensors.hpp"
#include "host/run/checkpoint/checkpoint_files.hpp"
#include "host/run/run_folder.hpp"
#include "host/tensor/torch.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/run/run_compare.hpp"
#include "tests/run/run_support.hpp"

namespace mneme::train {
namespace {

using test::expect_same_runs;
using test::infini;
using test::is_same;
using test::small_experiment;
using test::timeless_metrics;
using test::weights_of;
using test::xl_cache;
using testing::ElementsAre;

TrainerOptions in(const std::filesystem::path& folder, LearningCurve curve = {}) {
  TrainerOptions options;
  options.folder = folder;
  options.curve = curve;
  return options;
}

TrainerOptions with_curve(LearningCurve curve) {
  TrainerOptions options;
  options.curve = curve;
  return options;
}

// Steps of the lines of a kind.
std::vector<std::int64_t> steps_of(const std::filesystem::path& run, const std::string& kind) {
  std::vector<std::int64_t> out;
  for (const Json& line : timeless_metrics(run)) {
    if (line.at("kind") == kind) out.push_back(line.at("step"));
  }
  return out;
}

class StepLosses final : public run::Observer {
 public:
  void on_step(const run::StepReport& report) override { losses.push_back(report.loss); }
  void on_eval(const run::EvalReport&) override { ++evaluations; }
  std::vector<double> losses;
  int evaluations = 0;
};

// Bit for bit: weights, every step's loss, the losses of the evaluation at the end.
TEST(Curve, ChangesNothingElse) {
  for (const std::string precision :
       {"f64", "f32"}) {  // evaluations in f32: a runtime of their own
    SCOPED_TRACE(precision);
    const std::vector<std::string> settings = {"train.steps=30", "train.log_every=4",
                                               "train.save_every=10",
                                               "eval.precision=" + precision};
    const std::string memory = xl_cache(7) + infini("lr = 0.05");
    const test::TemporaryFolder folder;
    StepLosses plain, curved;
    Trainer without(small_experiment(memory, settings), in(folder / "plain"));
    without.train(&plain);
    Trainer trainer(small_experiment(memory, settings), in(folder / "curved", {7, 2}));
    trainer.train(&curved);
    EXPECT_EQ(curved.losses, plain.losses);
    EXPECT_TRUE(is_same(weights_of(trainer.runtime()), weights_of(without.runtime())));
    EXPECT_EQ(curved.evaluations, 1);
    EXPECT_THAT(steps_of(folder / "curved", "curve"), ElementsAre(7, 14, 21, 28, 30));
    std::vector<Json> others;
    for (Json& line : timeless_metrics(folder / "curved")) {
      if (line.at("kind") != "curve") others.push_back(std::move(line));
    }
    EXPECT_EQ(others, timeless_metrics(folder / "plain"));
    EXPECT_EQ(trainer.valid_record().best_step, 30);  // of the evaluation at the end alone
    EXPECT_EQ(run::RunFolder::open(folder / "curved").checkpoints().steps(),
              run::RunFolder::open(folder / "plain").checkpoints().steps());
  }
}

TEST(Curve, IsMeasuredOnTheFirstSegmentsOfTheValidSplit) {
  const test::TemporaryFolder folder;
  Trainer trainer(small_experiment("", {"train.steps=6"}), in(folder / "run", {6, 2}));
  trainer.train();
  const double expected = trainer.evaluate_split(data::Split::kValid, {}, 2).loss();
  for (const Json& line : timeless_metrics(folder / "run")) {
    if (line.at("kind") != "curve") continue;
    EXPECT_EQ(line.at("loss").get<double>(), expected);
    EXPECT_EQ(line.at("segments"), 2);
    EXPECT_EQ(line.at("targets"), 2 * 4 * 6);
    EXPECT_EQ(line.at("split"), "valid");
  }
  EXPECT_NE(expected, trainer.evaluate_split(data::Split::kValid).loss());  // of all five segments
}

class StopIn final : public run::Observer {
 public:
  StopIn(std::int64_t step, bool in_evaluation) : step_(step), in_evaluation_(in_evaluation) {}
  void on_step(const run::StepReport& report) override {
    at_ = report.step;
    if (at_ == step_ && !in_evaluation_) throw Stopped();
  }
  void on_eval_progress(std::int64_t, std::int64_t) override {
    if (at_ == step_ && in_evaluation_) throw Stopped();
  }
  struct Stopped {};

 private:
  std::int64_t step_, at_ = 0;
  bool in_evaluation_;
};

// Also where the stop left a point out, and in the middle of the steps between two lines.
TEST(Curve, GoesOnAfterAStop) {
  const config::Experiment experiment =
      small_experiment(xl_cache(7) + infini("lr = 0.05"),
                       {"train.steps=30", "train.log_every=7", "train.save_every=8"});
  const LearningCurve curve{.every = 5, .segments = 2};
  const test::TemporaryFolder folder;
  Trainer(experiment, in(folder / "whole", curve)).train();
  for (const std::int64_t step : {9, 10, 15, 30}) {
    for (const bool in_evaluation : {false, true}) {
      if (in_evaluation && step == 9) continue;
      SCOPED_TRACE(str("step ", step, in_evaluation ? ", within its point" : ""));
      const auto run = folder / str("cut", step, in_evaluation);
      {
        Trainer first(experiment, in(run, curve));
        StopIn stop(step, in_evaluation);
        EXPECT_THROW(first.train(&stop), StopIn::Stopped);
        first.save();
      }
      Trainer::resume(run, with_curve(curve))->train();
      expect_same_runs(folder / "whole", run);
    }
  }
}

// A checkpoint of a program that knew neither curves nor means.
TEST(Curve, BeginsWhereAnOlderCheckpointKnowsNothingOfIt) {
  const test::TemporaryFolder folder;
  const config::Experiment experiment = small_experiment("", {"train.steps=8"});
  {
    Trainer first(experiment);
    for (int i = 0; i < 3; ++i) static_cast<void>(first.train_step());
    first.save(folder / "new.safetensors");
  }
  const SafetensorsFile file = SafetensorsFile::open(folder / "new.safetensors");
  std::map<std::string, std::string> metadata = file.metadata();
  for (const char* const key : {"logged", "checksum", "tensor_checksums"}) metadata.erase(key);
  std::vector<TensorView> tensors;
  SafetensorsWriter writer;
  for (const std::string& name : file.names()) {
    const TensorView& view = file.at(name);
    tensors.push_back(view);
    writer.add(name, view.dtype, view.shape, view.data);
  }
  run::add_checksums(metadata, tensors);
  for (const auto& [key, value] : metadata) writer.set_metadata(key, value);
  writer.write(folder / "old.safetensors");
  Trainer second(experiment, with_curve({2, 1}));
  second.load(folder / "old.safetensors");
  EXPECT_EQ(second.step(), 3);
  second.train();
  EXPECT_EQ(second.step(), 8);
}

TEST(LoggedLoss, IsTheMeanOfItsInterval) {
  const test::TemporaryFolder folder;
  Trainer trainer(small_experiment("", {"train.steps=11", "train.log_every=4"}),
                  in(folder / "run"));
  StepLosses steps;
  trainer.train(&steps);
  const auto mean = [&](std::size_t from, std::size_t to) {
    double sum = 0.0;
    for (std::size_t i = from; i < to; ++i) sum += steps.losses.at(i);
    return sum / static_cast<double>(to - from);
  };
  std::vector<double> logged;
  for (const Json& line : timeless_metrics(folder / "run")) {
    if (line.at("kind") == "step") logged.push_back(line.at("loss"));
  }
  EXPECT_THAT(logged, ElementsAre(mean(0, 4), mean(4, 8), mean(8, 11)));
}

}  // namespace
}  // namespace mneme::train
