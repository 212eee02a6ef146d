#include "host/train/trainer.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "host/base/error.hpp"
#include "host/base/file/checksum.hpp"
#include "host/tensor/torch.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/ranks/thread_ranks.hpp"
#include "tests/run/run_support.hpp"

namespace mneme::train {
namespace {

using test::error_of;
using test::fitted;
using test::infini;
using test::is_same;
using test::ListStream;
using test::random_segment;
using test::small_experiment;
using test::weights_of;
using test::with_stream;
using test::xl_cache;
using testing::HasSubstr;
using testing::StartsWith;

std::vector<double> losses(Trainer& trainer, int steps) {
  std::vector<double> out;
  for (int i = 0; i < steps; ++i) out.push_back(trainer.train_step().loss);
  return out;
}

TEST(Trainer, LearnsASegmentByHeart) {
  for (const char* precision : {"f64", "f32", "bf16"}) {
    SCOPED_TRACE(precision);
    const std::vector<data::TokenSegment> same(150, random_segment(4, 6, 8, 5));
    Trainer trainer(
        small_experiment(xl_cache(12),
                         {"train.steps=150", str("train.precision=", precision),
                          "model.dropout=0.0", "model.attention_dropout=0.0", "train.clip=1.0"}),
        with_stream(same));
    const std::vector<double> all = losses(trainer, 150);
    EXPECT_LT(all.back(), 0.3 * all.front());
    EXPECT_EQ(trainer.step(), 150);
    EXPECT_EQ(trainer.tokens(), 150 * 4 * 6);
  }
}

TEST(Trainer, ReportsWhatAStepDid) {
  Trainer trainer(small_experiment("", {"train.accumulate=3"}));
  const run::StepReport first = trainer.train_step();
  EXPECT_EQ(first.step, 1);
  EXPECT_EQ(first.tokens, 3 * 4 * 6);
  EXPECT_EQ(first.tokens_read, 3 * 4 * 6);
  EXPECT_EQ(first.lr, 0.0);  // warm-up begins at 0
  EXPECT_GT(first.grad_norm, 0.0);
  EXPECT_GT(first.seconds, 0.0);
  const run::StepReport second = trainer.train_step();
  EXPECT_DOUBLE_EQ(second.lr, 1e-2 * 0.5);
  EXPECT_GT(second.seconds, first.seconds);
}

// Two segments of two lanes accumulated are one segment of four lanes: without memory or dropout
// the gradients are the same mean.
TEST(Trainer, AccumulatesTheMeanOverSegments) {
  const std::vector<std::string> plain = {"model.dropout=0.0", "model.attention_dropout=0.0",
                                          "train.warmup=0", "train.clip=0.05"};
  const data::TokenSegment whole = random_segment(4, 6, 8, 11);
  std::vector<data::TokenSegment> halves(2);
  for (std::size_t h = 0; h < 2; ++h) {
    halves[h].prepare(2, 6, false);
    halves[h].valid = {6, 6};
    for (std::size_t i = 0; i < 12; ++i) {
      halves[h].inputs[i] = whole.inputs[12 * h + i];
      halves[h].targets[i] = whole.targets[12 * h + i];
    }
  }
  std::vector<std::string> accumulated = plain;
  accumulated.insert(accumulated.end(), {"train.lanes=2", "train.accumulate=2"});
  Trainer one(small_experiment("", plain), with_stream({whole}));
  Trainer two(small_experiment("", accumulated), with_stream(halves));
  const run::StepReport a = one.train_step();
  const run::StepReport b = two.train_step();
  EXPECT_NEAR(a.loss, b.loss, 1e-12);
  EXPECT_NEAR(a.grad_norm, b.grad_norm, 1e-12);
  const auto ours = weights_of(one.runtime()), theirs = weights_of(two.runtime());
  for (std::size_t i = 0; i < ours.size(); ++i) {
    EXPECT_LE((ours[i] - theirs[i]).abs().max().item<double>(), 1e-9);
  }
}

TEST(Trainer, StartsFromTheSameBackboneWhateverTheMemory) {
  Trainer none(small_experiment());
  Trainer cached(small_experiment(xl_cache(12) + infini()));
  const auto a = weights_of(none.runtime()), b = weights_of(cached.runtime());
  ASSERT_LT(a.size(), b.size());
  EXPECT_TRUE(is_same(a, {b.begin(), b.begin() + static_cast<std::ptrdiff_t>(a.size())}));
  EXPECT_EQ(none.runtime().memory_parameter_count(), 0);
  EXPECT_EQ(cached.runtime().memory_parameter_count(), 2 * 2);  // beta [heads] in each layer
  EXPECT_EQ(cached.runtime().backbone_parameter_count(), none.runtime().backbone_parameter_count());
}

TEST(Trainer, GivesTierParametersTheirOwnRateAndDecay) {
  Trainer trainer(small_experiment(infini("lr = 0.5\nweight_decay = 0.25")));
  const auto& parameters = trainer.runtime().parameters();
  EXPECT_EQ(parameters.front().lr, 1e-2);
  EXPECT_EQ(parameters.front().weight_decay, 0.0);
  EXPECT_EQ(parameters.back().lr, 0.5);
  EXPECT_EQ(parameters.back().weight_decay, 0.25);
  const at::Tensor before = parameters.back().tensor.detach().clone();
  losses(trainer, 3);
  EXPECT_FALSE(at::equal(before, parameters.back().tensor));
}

TEST(Trainer, CarriesGradientOverBpttSegments) {
  const std::vector<std::string> two = {"train.bptt_segments=2", "model.dropout=0.0"};
  Trainer trainer(small_experiment(infini(), two));
  const run::StepReport report = trainer.train_step();
  EXPECT_EQ(report.tokens, 2 * 4 * 6);
  EXPECT_TRUE(trainer.state().is_graph_boundary());
}

// Of a sequence 4 tokens are read for the memory alone, and 5 predict the answer.
TEST(Trainer, CountsTheTokensOfPrompts) {
  Trainer trainer(small_experiment(
      xl_cache(12), {"data.task=digit_sorting", "data.length=5", "data.alphabet=4"}));
  for (int step = 1; step <= 2; ++step) {
    const run::StepReport report = trainer.train_step();
    EXPECT_EQ(report.tokens, step * 4 * 5);
    EXPECT_EQ(report.tokens_read, step * 4 * 9);
  }
}

TEST(Trainer, CountsStepsOfEpochs) {
  const std::string text(40, 'a');
  const test::TemporaryFolder folder;
  const std::string path = folder.write("train.txt", text).string();
  const auto e = small_experiment("", {"data.task=text", "data.train=" + path, "train.lanes=2"});
  config::Experiment epochs = e;
  epochs.train.steps = 0;
  epochs.train.epochs = 3;
  // 20 bytes a lane: 19 targets in 4 segments, the last one short.
  EXPECT_EQ(Trainer(epochs).total_steps(), 12);
  epochs.train.accumulate = 5;
  EXPECT_EQ(Trainer(epochs).total_steps(), 3);
  config::Experiment endless = small_experiment();
  endless.train.steps = 0;
  endless.train.epochs = 1;
  EXPECT_THAT(error_of([&] { Trainer trainer(endless); }), StartsWith("2: train.epochs: "));
}

TEST(Trainer, StopsBeforeAnUpdateThatIsNotFinite) {
  const auto experiment = small_experiment(xl_cache(12));
  Trainer undisturbed(experiment), trainer(experiment);
  losses(undisturbed, 3);
  losses(trainer, 3);
  const test::TemporaryFolder folder;
  trainer.save(folder / "good.safetensors");
  const std::string saved = sha256_file(folder / "good.safetensors");
  at::Tensor weight = trainer.runtime().parameters()[3].tensor;
  const at::Tensor kept = weight.detach().clone();
  {
    const at::NoGradGuard no_grad;
    weight.view(-1)[0] = std::nan("");
  }
  const std::string error = error_of([&] { trainer.train_step(); });
  EXPECT_THAT(error, StartsWith("1: step 4: the training reached numbers that are not finite"));
  EXPECT_THAT(error, HasSubstr("the loss is nan"));
  EXPECT_THAT(error, HasSubstr("first model."));
  EXPECT_THAT(error, HasSubstr("good.safetensors (step 3)"));
  EXPECT_EQ(sha256_file(folder / "good.safetensors"), saved);
  EXPECT_EQ(trainer.step(), 3);
  {
    const at::NoGradGuard no_grad;
    weight.copy_(kept);
  }
  trainer.runtime().weights_changed();
  EXPECT_EQ(losses(trainer, 3), losses(undisturbed, 3));
  EXPECT_TRUE(is_same(weights_of(trainer.runtime()), weights_of(undisturbed.runtime())));
}

TEST(Trainer, SaysWhenNoCheckpointWasWritten) {
  Trainer trainer(small_experiment());
  {
    const at::NoGradGuard no_grad;
    at::Tensor weight = trainer.runtime().parameters()[0].tensor;
    weight.fill_(INFINITY);
  }
  EXPECT_THAT(error_of([&] { trainer.train_step(); }), HasSubstr("no checkpoint was written yet"));
}

// Rank 0 writes the checkpoint; the other one knows its step.
TEST(Trainer, EveryRankKnowsTheLastCheckpoint) {
  const test::TemporaryFolder folder;
  test::run_ranks(2, [&](ranks::Communicator& ranks) {
    TrainerOptions options;
    options.folder = folder / "run";
    options.ranks.ranks = &ranks;
    Trainer trainer(small_experiment(), std::move(options));
    trainer.train_step();
    trainer.save();
    {
      const at::NoGradGuard no_grad;
      at::Tensor weight = trainer.runtime().parameters()[0].tensor;
      weight.fill_(INFINITY);
    }
    EXPECT_THAT(error_of([&] { trainer.train_step(); }),
                HasSubstr(ranks.is_first() ? "step_00000001.safetensors (step 1)"
                                           : "the last good checkpoint is that of step 1"));
  });
}

// The second segment of a step fails: memory, data position and dropout go back with it.
TEST(Trainer, LeavesTheStateAsBeforeAFailedStep) {
  std::vector<data::TokenSegment> segments;
  for (std::uint64_t i = 0; i < 6; ++i) segments.push_back(random_segment(4, 6, 8, i));
  const auto experiment = small_experiment(xl_cache(12), {"train.accumulate=2"});
  Trainer undisturbed(experiment, with_stream(segments));
  auto broken = std::make_unique<ListStream>(segments);
  ListStream& stream = *broken;
  stream.segments()[3].inputs[7] = 8;
  TrainerOptions options;
  options.stream = std::move(broken);
  Trainer trainer(experiment, std::move(options));
  EXPECT_EQ(losses(trainer, 1), losses(undisturbed, 1));
  const auto before = weights_of(trainer.runtime());
  const std::string error = error_of([&] { trainer.train_step(); });
  EXPECT_THAT(error, StartsWith("1: segment 3, lane 1, place 1: the input id is outside"));
  EXPECT_THAT(error, HasSubstr("expected 0 .. 7, got 8"));
  EXPECT_TRUE(is_same(before, weights_of(trainer.runtime())));
  EXPECT_EQ(trainer.state().segments(), 2);
  stream.segments()[3].inputs[7] = segments[3].inputs[7];
  EXPECT_EQ(losses(trainer, 2), losses(undisturbed, 2));
  EXPECT_TRUE(is_same(weights_of(trainer.runtime()), weights_of(undisturbed.runtime())));
  EXPECT_THAT(error_of([&] { trainer.train_step(); }),
              StartsWith("1: training data: they ended at step 4 of 8"));
}

TEST(Trainer, EvaluatesWithoutDisturbingTraining) {
  for (const char* precision : {"f64", "f32"}) {
    const auto experiment = small_experiment(xl_cache(12), {str("eval.precision=", precision)});
    Trainer plain(experiment), interrupted(experiment);
    losses(plain, 2);
    losses(interrupted, 2);
    const eval::Result result = interrupted.evaluate_split(data::Split::kValid);
    EXPECT_EQ(result.total.targets, 5 * 4 * 6);
    EXPECT_GT(result.state_bytes, 0);
    EXPECT_EQ(losses(interrupted, 3), losses(plain, 3));
  }
}

TEST(Runtime, CopiesParametersOfAnEqualRuntimeOnly) {
  run::Runtime a(small_experiment(xl_cache(12)), {}),
      b(small_experiment(xl_cache(9), {"train.seed=2"}), {});
  EXPECT_FALSE(is_same(weights_of(a), weights_of(b)));
  b.copy_parameters(a);
  EXPECT_TRUE(is_same(weights_of(a), weights_of(b)));
  run::Runtime more(small_experiment(infini()), {}),
      wider(small_experiment("", {"model.ff=32"}), {});
  EXPECT_THAT(error_of([&] { a.copy_parameters(more); }), HasSubstr("different numbers"));
  EXPECT_THAT(error_of([&] { a.copy_parameters(wider); }), HasSubstr("different parameters"));
  run::Runtime half(small_experiment(fitted()), {}),
      quarter(small_experiment(fitted("tau = 0.25")), {});
  EXPECT_THAT(error_of([&] { quarter.copy_parameters(half); }),
              HasSubstr("tau = 0.25, trained with 0.5"));
}

TEST(Trainer, TrainsInBf16) {
  Trainer trainer(small_experiment(xl_cache(12), {"train.precision=bf16", "eval.precision=f32"}));
  for (const double loss : losses(trainer, 3)) EXPECT_TRUE(std::isfinite(loss));
  EXPECT_TRUE(std::isfinite(trainer.evaluate_split(data::Split::kTest).loss()));
}

}  // namespace
}  // namespace mneme::train
