// Stopping and resuming equals never having stopped, bit for bit.
#include <gtest/gtest.h>

#include "host/base/file/safetensors.hpp"
#include "host/tensor/torch.hpp"
#include "host/train/trainer.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/run/run_compare.hpp"
#include "tests/run/run_support.hpp"

namespace mneme::train {
namespace {

using test::expect_same_runs;
using test::infini;
using test::is_same;
using test::small_experiment;
using test::weights_of;
using test::xl_cache;

// 2k steps against k steps, a checkpoint, and k steps of another trainer.
void expect_resumes(const config::Experiment& experiment, int steps = 4) {
  const test::TemporaryFolder folder;
  Trainer whole(experiment), first(experiment), second(experiment);
  for (int i = 0; i < steps; ++i) {
    whole.train_step();
    first.train_step();
  }
  first.save(folder / "checkpoint.safetensors");
  second.train_step();  // a trainer that has moved already is set back
  second.load(folder / "checkpoint.safetensors");
  EXPECT_EQ(second.step(), steps);
  EXPECT_EQ(second.tokens(), whole.tokens());
  for (int i = 0; i < steps; ++i) {
    const run::StepReport ours = second.train_step();
    const run::StepReport expected = whole.train_step();
    EXPECT_EQ(ours.loss, expected.loss) << "step " << expected.step;
    EXPECT_EQ(ours.grad_norm, expected.grad_norm) << "step " << expected.step;
    EXPECT_EQ(ours.lr, expected.lr);
    EXPECT_EQ(ours.tokens, expected.tokens);
    EXPECT_EQ(ours.tokens_read, expected.tokens_read);
  }
  EXPECT_TRUE(is_same(weights_of(whole.runtime()), weights_of(second.runtime())));
  EXPECT_EQ(whole.state().bytes(), second.state().bytes());
}

TEST(Resume, EqualsNeverHavingStoppedWithoutMemory) { expect_resumes(small_experiment()); }

TEST(Resume, EqualsNeverHavingStoppedWithACache) {
  for (const char* precision : {"f64", "f32", "bf16"}) {
    SCOPED_TRACE(precision);
    // 15 rows: the cache keeps a part of a segment's block.
    expect_resumes(small_experiment(xl_cache(15), {str("train.precision=", precision)}));
  }
}

TEST(Resume, EqualsNeverHavingStoppedWithAFrozenBackbone) {
  expect_resumes(small_experiment(infini(), {"train.freeze=\"backbone\""}));
  expect_resumes(small_experiment("", {"train.freeze=\"backbone\"", "model.lora_rank=2"}));
  expect_resumes(small_experiment(infini(), {"model.lora_rank=2"}));
}

TEST(Resume, EqualsNeverHavingStoppedWithMuon) {
  for (const char* precision : {"f32", "bf16"}) {
    SCOPED_TRACE(precision);
    expect_resumes(small_experiment(infini(), {"train.optimizer=muon", "train.weight_decay=0.1",
                                               str("train.precision=", precision)}));
  }
}

#ifdef MNEME_HAS_CONTINUOUS_LTM
// Sticky samples are drawn anew from the keys of seed, lane and segment, which resume with the run.
TEST(Resume, EqualsNeverHavingStoppedWithAStickyContinuousMemory) {
  const std::string sticky =
      "[[memory.tier]]\nplugin = \"continuous_ltm\"\nbasis = 8\nsticky = true\n"
      "lambda_kl = 1e-3\nreset_tokens = 18\n";
  for (const char* precision : {"f64", "f32", "bf16"}) {
    SCOPED_TRACE(precision);
    const std::string set = str("train.precision=", precision);
    expect_resumes(small_experiment(sticky, {set}));
    expect_resumes(small_experiment(xl_cache(9) + sticky, {set}));
  }
}
#endif

TEST(Resume, EqualsNeverHavingStoppedWithTwoTiersAndGradientThroughTheState) {
  expect_resumes(small_experiment(xl_cache(7) + infini("lr = 0.05"),
                                  {"train.bptt_segments=2", "train.accumulate=2"}));
}

// Documents of different lengths: lanes are padded, reset at different times, and on their way
// through different documents when the checkpoint is written.
TEST(Resume, EqualsNeverHavingStoppedInTheMiddleOfDocuments) {
  const test::TemporaryFolder folder;
  std::vector<std::int32_t> ids;
  for (int i = 0; i < 13 * 17; ++i) ids.push_back((i * i + i / 5) % 8);
  SafetensorsWriter writer;
  writer.add("tokens", DType::I32, {13, 17}, ids.data());
  writer.write(folder / "ids.safetensors");
  expect_resumes(small_experiment(
      xl_cache(9), {"data.task=tokens", "data.train=" + (folder / "ids.safetensors").string(),
                    "data.vocabulary_size=8", "data.reset=document", "train.lanes=3"}));
}

class StopAt : public run::Observer {
 public:
  explicit StopAt(std::int64_t step) : step_(step) {}
  void on_step(const run::StepReport& report) override {
    if (report.step == step_) throw Stopped();
  }
  struct Stopped {};

 private:
  std::int64_t step_;
};

// A run of 100 steps against one of 50, a stop, and 50 of another trainer: metrics and checkpoints.
void expect_fifty_and_fifty(const std::string& memory, std::vector<std::string> settings) {
  settings.insert(settings.end(), {"train.steps=100", "train.eval_every=20", "train.save_every=30",
                                   "train.log_every=5", "eval.steps=2"});
  const config::Experiment experiment = small_experiment(memory, settings);
  const test::TemporaryFolder folder;
  const auto in = [&](const char* name) {
    TrainerOptions options;
    options.folder = folder / name;
    return options;
  };
  Trainer(experiment, in("whole")).train();
  {
    Trainer first(experiment, in("cut"));
    StopAt stop(50);
    EXPECT_THROW(first.train(&stop), StopAt::Stopped);
    first.save();
  }
  const auto second = Trainer::resume(folder / "cut");
  EXPECT_EQ(second->step(), 50);
  second->train();
  expect_same_runs(folder / "whole", folder / "cut");
}

TEST(Resume, HundredStepsEqualFiftyAndFiftyWithoutMemory) { expect_fifty_and_fifty("", {}); }

TEST(Resume, HundredStepsEqualFiftyAndFiftyWithACache) {
  expect_fifty_and_fifty(xl_cache(15), {"train.precision=f32"});
}

TEST(Resume, HundredStepsEqualFiftyAndFiftyWithAccumulationAndDropout) {
  expect_fifty_and_fifty(xl_cache(7) + infini("lr = 0.05"),
                         {"train.bptt_segments=2", "train.accumulate=2", "model.layers=1",
                          "model.dropout=0.2", "train.weight_decay=0.01", "train.optimizer=adamw"});
}

// 400 ids in 3 lanes of 133: an epoch has 22 or 23 segments, so the stop lies within one.
TEST(Resume, HundredStepsEqualFiftyAndFiftyMidEpoch) {
  const test::TemporaryFolder folder;
  std::vector<std::int32_t> ids;
  for (int i = 0; i < 400; ++i) ids.push_back((i * i + i / 7) % 8);
  SafetensorsWriter writer;
  writer.add("tokens", DType::I32, {400}, ids.data());
  writer.write(folder / "ids.safetensors");
  const std::string file = (folder / "ids.safetensors").string();
  expect_fifty_and_fifty(xl_cache(9),
                         {"data.task=tokens", "data.train=" + file, "data.valid=" + file,
                          "data.vocabulary_size=8", "train.lanes=3"});
}

// Stopped at a step whose evaluation and early stop are still to come.
TEST(Resume, MakesUpForAnEvaluationThatTheStopLeftOut) {
  const std::vector<std::string> settings = {"train.steps=60",          "train.eval_every=5",
                                             "train.early_stop=2",      "train.lr=1.0",
                                             "train.schedule=constant", "train.save_every=7"};
  const config::Experiment experiment = small_experiment("", settings);
  const test::TemporaryFolder folder;
  const auto in = [&](const std::string& name) {
    TrainerOptions options;
    options.folder = folder / name;
    return options;
  };
  std::int64_t end = 0;
  {
    Trainer whole(experiment, in("whole"));
    whole.train();
    end = whole.step();
    ASSERT_TRUE(whole.is_stopped_early());
  }
  for (std::int64_t step = 5; step <= end; step += 5) {
    const std::string name = str("cut", step);
    {
      Trainer first(experiment, in(name));
      StopAt stop(step);
      EXPECT_THROW(first.train(&stop), StopAt::Stopped);
      first.save();
    }
    Trainer::resume(folder / name)->train();
    expect_same_runs(folder / "whole", folder / name);
  }
}

TEST(Resume, RepeatsARunExactly) {
  const auto experiment = small_experiment(xl_cache(12));
  Trainer a(experiment), b(experiment);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(a.train_step().loss, b.train_step().loss);
  config::Experiment other = experiment;
  other.train.seed = 2;
  EXPECT_NE(Trainer(other).train_step().loss, Trainer(experiment).train_step().loss);
}

}  // namespace
}  // namespace mneme::train
