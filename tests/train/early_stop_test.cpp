// Evaluations while training: early stop, the best one, and observers that interrupt.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "host/tensor/torch.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/run/run_support.hpp"

namespace mneme::train {
namespace {

using test::is_same;
using test::small_experiment;
using test::weights_of;
using test::xl_cache;
using testing::ElementsAre;

// Nothing moves: every evaluation has the loss of the first.
config::Experiment still(int early_stop) {
  return small_experiment("", {"train.lr=1e-300", "train.steps=20", "train.eval_every=2",
                               str("train.early_stop=", early_stop)});
}

class Recorder final : public run::Observer {
 public:
  void on_step(const run::StepReport& report) override {
    if (report.step == stop_after_step) throw std::runtime_error("stop");
  }
  void on_eval_progress(std::int64_t segments, std::int64_t) override {
    if (segments == stop_after_segments) throw std::runtime_error("stop");
  }
  void on_eval(const run::EvalReport& report) override {
    steps.push_back(report.step);
    best.push_back(report.is_best);
    losses.push_back(report.result.loss());
  }

  std::int64_t stop_after_step = -1;
  std::int64_t stop_after_segments = -1;
  std::vector<std::int64_t> steps;
  std::vector<bool> best;
  std::vector<double> losses;
};

TEST(EarlyStop, EndsAfterSoManyEvaluationsWithoutALowerLoss) {
  Trainer trainer(still(3));
  Recorder recorder;
  trainer.train(&recorder);
  EXPECT_THAT(recorder.steps, ElementsAre(2, 4, 6, 8));
  EXPECT_THAT(recorder.best, ElementsAre(true, false, false, false));
  EXPECT_EQ(trainer.step(), 8);
  EXPECT_TRUE(trainer.is_finished());
  EXPECT_TRUE(trainer.is_stopped_early());
  EXPECT_EQ(trainer.valid_record().best_step, 2);
  trainer.train(&recorder);  // nothing is left
  EXPECT_EQ(trainer.step(), 8);
  EXPECT_EQ(recorder.steps.size(), 4U);
}

TEST(EarlyStop, IsOffByDefault) {
  Trainer trainer(still(0));
  trainer.train();
  EXPECT_EQ(trainer.step(), 20);
  EXPECT_FALSE(trainer.is_stopped_early());
}

// A run that is saved and continued between evaluations stops where the uninterrupted one does.
TEST(EarlyStop, CountsOverAResume) {
  const test::TemporaryFolder folder;
  {
    Trainer trainer(still(3));
    Recorder recorder;
    recorder.stop_after_step = 5;
    EXPECT_THROW(trainer.train(&recorder), std::runtime_error);
    trainer.save(folder / "at5.safetensors");
  }
  Trainer trainer(still(3));
  trainer.load(folder / "at5.safetensors");
  Recorder recorder;
  trainer.train(&recorder);
  EXPECT_THAT(recorder.steps, ElementsAre(6, 8));
  EXPECT_EQ(trainer.step(), 8);
}

// A stop at the step of an evaluation, before it or within it, loses neither the evaluation nor
// anything of the steps that follow.
TEST(Evaluations, AreDoneAgainWhenTheyWereInterrupted) {
  const auto experiment = small_experiment(xl_cache(12), {"train.eval_every=2"});
  Trainer whole(experiment);
  Recorder expected;
  whole.train(&expected);
  for (const bool is_within : {false, true}) {
    Trainer trainer(experiment);
    Recorder recorder;
    (is_within ? recorder.stop_after_segments : recorder.stop_after_step) = 2;
    EXPECT_THROW(trainer.train(&recorder), std::runtime_error);
    EXPECT_EQ(trainer.step(), 2);
    EXPECT_TRUE(recorder.steps.empty());
    recorder.stop_after_segments = recorder.stop_after_step = -1;
    trainer.train(&recorder);
    EXPECT_EQ(recorder.steps, expected.steps);
    EXPECT_EQ(recorder.losses, expected.losses);
    EXPECT_TRUE(is_same(weights_of(trainer.runtime()), weights_of(whole.runtime())));
  }
}

TEST(ValidRecord, KeepsTheFirstOfEqualLosses) {
  run::ValidRecord record;
  EXPECT_TRUE(record.add(10, 2.0));
  EXPECT_FALSE(record.add(20, 2.0));
  EXPECT_TRUE(record.add(30, 1.5));
  EXPECT_FALSE(record.add(40, 1.6));
  EXPECT_EQ(record.best_step, 30);
  EXPECT_EQ(record.last_step, 40);
  EXPECT_EQ(record.evaluations_since_best, 1);
}

}  // namespace
}  // namespace mneme::train
