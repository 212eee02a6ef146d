// train.average: what evaluations and checkpoints have, beside what is trained.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "host/run/checkpoint/checkpoint.hpp"
#include "host/tensor/torch.hpp"
#include "host/train/trainer.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/run/run_support.hpp"

namespace mneme::train {
namespace {

using test::infini;
using test::is_same;
using test::small_experiment;
using test::weights_of;
using test::xl_cache;

double averaged_loss(Trainer& trainer) {
  return trainer.evaluate_split(data::Split::kValid, {}, 2).loss();
}

config::Experiment with_average(const std::string& memory, std::vector<std::string> settings) {
  settings.emplace_back("train.average=0.7");
  settings.emplace_back("train.steps=30");
  return small_experiment(memory, settings);
}

TEST(Average, IsWhatIsEvaluatedAndSaved) {
  const config::Experiment experiment = with_average(xl_cache(9), {});
  config::Experiment without = experiment;
  without.train.average = 0.0;
  Trainer trainer(experiment), plain(without);
  std::vector<at::Tensor> average = weights_of(trainer.runtime());
  for (int t = 1; t <= 6; ++t) {
    trainer.train_step();
    plain.train_step();
    const double d = std::min(0.7, (1.0 + t) / (10.0 + t));
    const std::vector<at::Tensor> weights = weights_of(trainer.runtime());
    for (std::size_t i = 0; i < average.size(); ++i)
      average[i] = average[i] * d + weights[i] * (1.0 - d);
    if (t != 3) continue;
    EXPECT_NE(averaged_loss(trainer), averaged_loss(plain));
  }
  // An evaluation changes nothing of the training.
  EXPECT_TRUE(is_same(weights_of(trainer.runtime()), weights_of(plain.runtime())));
  const test::TemporaryFolder folder;
  trainer.save(folder / "checkpoint.safetensors");
  EXPECT_TRUE(is_same(weights_of(trainer.runtime()), weights_of(plain.runtime())));
  run::Runtime runtime(experiment, {});
  const auto checkpoint = run::Checkpoint::open(folder / "checkpoint.safetensors");
  static_cast<void>(checkpoint.load_weights(runtime, config::Carry::kRefuse));
  const std::vector<at::Tensor> saved = weights_of(runtime);
  for (std::size_t i = 0; i < average.size(); ++i)
    EXPECT_TRUE(at::allclose(saved[i], average[i], 1e-12, 1e-14)) << runtime.parameters()[i].name;
  EXPECT_EQ(runtime.evaluate_split(data::Split::kValid, {}, 2).loss(), averaged_loss(trainer));
}

// Of the same bits, also where hooks do not run and numbers are read late.
TEST(Average, IsResumed) {
  const test::TemporaryFolder folder;
  const std::vector<std::vector<std::string>> all = {
      {},
      {"train.precision=bf16", "train.optimizer=muon"},
      {"train.replay=on"},
      {"train.freeze=\"backbone\""}};
  for (const std::vector<std::string>& settings : all) {
    const config::Experiment experiment = with_average(infini(), settings);
    TrainerOptions late;
    late.reads_late = true;
    late.stop_at = 8;
    Trainer whole(experiment, std::move(late)), first(experiment), second(experiment);
    whole.run_steps([](const run::StepReport&, bool) {});
    for (int step = 0; step < 4; ++step) first.train_step();
    first.save(folder / "checkpoint.safetensors");
    second.train_step();  // a trainer that has moved already is set back
    second.load(folder / "checkpoint.safetensors");
    EXPECT_TRUE(is_same(weights_of(first.runtime()), weights_of(second.runtime())));
    for (int step = 0; step < 4; ++step) second.train_step();
    EXPECT_TRUE(is_same(weights_of(whole.runtime()), weights_of(second.runtime())));
    EXPECT_EQ(averaged_loss(whole), averaged_loss(second));
  }
}

// An observer's exception comes while averages are evaluated.
TEST(Average, LeavesTheWeightsWhereAnEvaluationEndsEarly) {
  Trainer trainer(with_average("", {}));
  for (int step = 0; step < 3; ++step) trainer.train_step();
  const std::vector<at::Tensor> before = weights_of(trainer.runtime());
  eval::Options options;
  options.on_progress = [](std::int64_t, std::int64_t) { throw std::runtime_error("stop"); };
  EXPECT_THROW(trainer.evaluate_split(data::Split::kValid, options, 2), std::runtime_error);
  EXPECT_TRUE(is_same(weights_of(trainer.runtime()), before));
}

// A run without averages has none to continue from.
TEST(Average, IsASettingOfTheRun) {
  const test::TemporaryFolder folder;
  Trainer plain(small_experiment());
  plain.train_step();
  plain.save(folder / "checkpoint.safetensors");
  Trainer trainer(with_average("", {}));
  EXPECT_THAT(test::error_of([&] { trainer.load(folder / "checkpoint.safetensors"); }),
              testing::HasSubstr("average = 0.7"));
}

}  // namespace
}  // namespace mneme::train
