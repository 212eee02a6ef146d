// Training steps: segments without target, windows of BPTT, accumulation by step, and the messages
// when numbers are not finite or memory runs out.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "host/base/error.hpp"
#include "host/eval/run_segment.hpp"
#include "host/run/run_description.hpp"
#include "host/tensor/torch.hpp"
#include "tests/base/temporary_folder.hpp"
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
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

const std::vector<std::string> kPlain = {"model.dropout=0.0", "model.attention_dropout=0.0",
                                         "train.warmup=0"};

std::vector<std::string> plain(std::vector<std::string> more) {
  more.insert(more.end(), kPlain.begin(), kPlain.end());
  return more;
}

data::TokenSegment without_targets(data::TokenSegment segment) {
  std::fill(segment.targets.begin(), segment.targets.end(), data::kNoTarget);
  return segment;
}

// A segment whose inputs are the ids 2k and 2k+1 alone.
data::TokenSegment own_ids(std::int64_t k, bool has_targets) {
  data::TokenSegment segment = random_segment(4, 6, 16, 40 + static_cast<std::uint64_t>(k));
  for (std::size_t i = 0; i < segment.inputs.size(); ++i) {
    segment.inputs[i] = 2 * k + static_cast<std::int64_t>(i % 2);
  }
  return has_targets ? segment : without_targets(segment);
}

at::Tensor embedding_of(Trainer& trainer) {
  for (const optim::TrainableParameter& parameter : trainer.runtime().parameters()) {
    if (parameter.name == "model.embedding.0.weight") return parameter.tensor.detach();
  }
  throw std::logic_error("no embedding");
}

// The ids k (of own_ids) whose embeddings one step moved: where gradient arrived.
std::set<std::int64_t> reached(const std::vector<data::TokenSegment>& segments, int bptt,
                               int accumulate) {
  Trainer trainer(
      small_experiment(infini(),
                       plain({str("train.bptt_segments=", bptt), "data.alphabet=16",
                              str("train.accumulate=", accumulate), "model.tie_embedding=false"})),
      with_stream(segments));
  const at::Tensor before = embedding_of(trainer).clone();
  trainer.train_step();
  EXPECT_TRUE(trainer.state().is_graph_boundary());
  const at::Tensor moved = embedding_of(trainer).ne(before).any(1);
  std::set<std::int64_t> out;
  for (std::int64_t id = 0; id < moved.size(0); ++id) {
    if (moved[id].item<bool>()) out.insert(id / 2);
  }
  return out;
}

TEST(Step, GradientReachesBackExactlyTheBpttSegments) {
  const std::vector<data::TokenSegment> task = {own_ids(0, false), own_ids(1, false),
                                                own_ids(2, false), own_ids(3, true)};
  EXPECT_THAT(reached(task, 1, 1), ElementsAre(3));
  EXPECT_THAT(reached(task, 2, 1), ElementsAre(2, 3));
  EXPECT_THAT(reached(task, 3, 1), ElementsAre(1, 2, 3));
  EXPECT_THAT(reached(task, 4, 1), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(reached(task, 9, 1), ElementsAre(0, 1, 2, 3));
}

TEST(Step, EachPassOfAnAccumulationReachesBackByItself) {
  const std::vector<data::TokenSegment> task = {own_ids(0, false), own_ids(1, false),
                                                own_ids(2, true),  own_ids(3, false),
                                                own_ids(4, false), own_ids(5, true)};
  EXPECT_THAT(reached(task, 1, 2), ElementsAre(2, 5));
  EXPECT_THAT(reached(task, 2, 2), ElementsAre(1, 2, 4, 5));
}

// Where every segment asks for something, windows are consecutive: the second one of a window
// reaches into the first, the first one into nothing.
TEST(Step, WindowsOfAskingSegmentsAreConsecutive) {
  std::vector<data::TokenSegment> text = {own_ids(0, true), own_ids(1, true), own_ids(2, true)};
  // The third segment begins another window: nothing of it reaches back to the second.
  EXPECT_THAT(reached(text, 2, 1), ElementsAre(0, 1));
  EXPECT_THAT(reached(text, 1, 1), ElementsAre(0));
}

TEST(Step, SegmentsWithoutTargetFillTheMemoryAndDoNotCount) {
  const data::TokenSegment prompt = random_segment(4, 6, 8, 1), answer = random_segment(4, 6, 8, 2);
  // Both see the answer after the prompt with the initial weights: the first rate of a warm-up is
  // 0.
  std::vector<std::string> settings = kPlain;
  settings.back() = "train.warmup=4";
  Trainer sparse(small_experiment(xl_cache(12), settings),
                 with_stream({without_targets(prompt), answer}));
  Trainer dense(small_experiment(xl_cache(12), settings), with_stream({prompt, answer}));
  const run::StepReport ours = sparse.train_step();
  dense.train_step();
  const run::StepReport theirs = dense.train_step();
  EXPECT_EQ(ours.step, 1);
  EXPECT_EQ(ours.tokens, 4 * 6);
  EXPECT_EQ(sparse.state().segments(), 2);
  EXPECT_EQ(ours.loss, theirs.loss);
  EXPECT_EQ(ours.grad_norm, theirs.grad_norm);
}

TEST(Step, AccumulatesOverSegmentsWithTargetsOnly) {
  const data::TokenSegment first = random_segment(4, 6, 8, 1), second = random_segment(4, 6, 8, 2);
  const data::TokenSegment prompt = without_targets(random_segment(4, 6, 8, 3));
  const std::vector<std::string> two = plain({"train.accumulate=2"});
  Trainer sparse(small_experiment("", two), with_stream({prompt, first, prompt, prompt, second}));
  Trainer dense(small_experiment("", two), with_stream({first, second}));
  const run::StepReport ours = sparse.train_step(), theirs = dense.train_step();
  EXPECT_EQ(ours.loss, theirs.loss);
  EXPECT_EQ(ours.tokens, theirs.tokens);
  EXPECT_TRUE(is_same(weights_of(sparse.runtime()), weights_of(dense.runtime())));
}

// A failure in the second window leaves memory, data and dropout as before the step.
TEST(Step, AFailedStepGoesBackBeforeItsFirstPrompt) {
  std::vector<data::TokenSegment> segments;
  for (std::uint64_t i = 0; i < 12; ++i) {
    const data::TokenSegment segment = random_segment(4, 6, 8, i);
    segments.push_back(i % 3 == 2 ? segment : without_targets(segment));
  }
  const auto experiment = small_experiment(
      xl_cache(12) + infini(), {"train.accumulate=2", "train.bptt_segments=2", "train.warmup=0"});
  Trainer undisturbed(experiment, with_stream(segments));
  auto broken = std::make_unique<ListStream>(segments);
  ListStream& stream = *broken;
  stream.segments()[4].inputs[0] = 99;
  TrainerOptions options;
  options.stream = std::move(broken);
  Trainer trainer(experiment, std::move(options));
  EXPECT_THAT(error_of([&] { trainer.train_step(); }), HasSubstr("segment 4, lane 0, place 0"));
  EXPECT_EQ(trainer.state().segments(), 0);
  stream.segments()[4].inputs[0] = segments[4].inputs[0];
  for (int i = 0; i < 2; ++i) EXPECT_EQ(trainer.train_step().loss, undisturbed.train_step().loss);
  EXPECT_TRUE(is_same(weights_of(trainer.runtime()), weights_of(undisturbed.runtime())));
}

// Windows end where the data ask for something; a saved position lies right behind it.
TEST(Step, ContinuesATaskWithPromptsBitForBit) {
  std::vector<data::TokenSegment> segments;
  for (std::uint64_t i = 0; i < 16; ++i) {
    const data::TokenSegment segment = random_segment(4, 6, 8, i);
    segments.push_back(i % 4 == 2 ? segment : without_targets(segment));
  }
  const auto experiment = small_experiment(
      xl_cache(12) + infini(), {"train.accumulate=2", "train.bptt_segments=3", "train.warmup=0"});
  const test::TemporaryFolder folder;
  Trainer whole(experiment, with_stream(segments));
  whole.train_step();
  EXPECT_EQ(whole.state().segments(), 7);  // nothing behind the second segment with targets
  whole.save(folder / "one.safetensors");
  Trainer resumed(experiment, with_stream(segments));
  resumed.load(folder / "one.safetensors");
  EXPECT_EQ(resumed.train_step().loss, whole.train_step().loss);
  EXPECT_TRUE(is_same(weights_of(resumed.runtime()), weights_of(whole.runtime())));
}

// Repeats one segment for ever; says that an epoch has four.
class Repeating final : public data::Stream {
 public:
  explicit Repeating(data::TokenSegment segment) : segment_(std::move(segment)) {}
  bool next(data::TokenSegment& segment) override {
    segment = segment_;
    return true;
  }
  std::vector<std::int64_t> position() const override { return {0}; }
  void seek(const std::vector<std::int64_t>&) override {}
  std::int64_t segments_per_epoch() const override { return 4; }
  std::int64_t targets_per_epoch() const override { return 0; }

 private:
  data::TokenSegment segment_;
};

TEST(Step, RefusesDataThatNeverAskForAnything) {
  TrainerOptions options;
  options.stream = std::make_unique<Repeating>(without_targets(random_segment(4, 6, 8, 1)));
  Trainer trainer(small_experiment(), std::move(options));
  const std::string error = error_of([&] { trainer.train_step(); });
  EXPECT_THAT(error, StartsWith("1: step 1: the training data have nothing to predict"));
}

TEST(Step, FollowsTheUpdatePeriodByStep) {
  config::Experiment experiment = small_experiment();
  experiment.train.accumulate_from = {{.step = 2, .segments = 3}};
  Trainer trainer(experiment);
  std::vector<std::int64_t> tokens;
  for (int i = 0; i < 4; ++i) tokens.push_back(trainer.train_step().tokens / (4 * 6));
  EXPECT_THAT(tokens, ElementsAre(1, 2, 5, 8));
}

TEST(Step, ReportsTheRatesOfGroupsWhereTheyDiffer) {
  config::Experiment experiment = small_experiment(infini("lr = 0.5"), kPlain);
  experiment.train.groups = {{.parameters = {"model.*.norm.*"}, .lr = 0.25}};
  Trainer trainer(experiment);
  const run::StepReport report = trainer.train_step();
  const std::map<std::string, double> expected = {
      {"group.0", 0.25}, {"memory.0", 0.5}, {"model", 1e-2}};
  EXPECT_EQ(report.rates, expected);
  EXPECT_EQ(run::to_json(report).at("rates").at("memory.0"), 0.5);
  const run::StepReport equal = Trainer(small_experiment("", kPlain)).train_step();
  EXPECT_TRUE(equal.rates.empty());
  EXPECT_FALSE(run::to_json(equal).contains("rates"));
}

// The first segment reports nothing, as the memory is empty then. A metric is the mean over the two
// that report it; an auxiliary loss is the number that entered the loss, in which the first counts
// as 0. Its weight is so large that the gradient is its alone.
TEST(Step, ReportsMetricsOfTheSegmentsThatHaveThem) {
  for (const char* const windows : {"train.accumulate=3", "train.bptt_segments=3"}) {
    SCOPED_TRACE(windows);
    Trainer trainer(small_experiment(fitted("scale = 6.0\nweight.gain = 1e12"), plain({windows})));
    const run::StepReport first = trainer.train_step();
    constexpr double kLayers = 2.0;
    EXPECT_DOUBLE_EQ(first.metrics.at("0.test.fitted.scale"), kLayers * 6.0 * 0.5);
    EXPECT_DOUBLE_EQ(first.losses.at("0.test.fitted.gain"), kLayers * 2.0 / 3.0);
    EXPECT_NEAR(first.grad_norm / (1e12 * std::sqrt(kLayers) * 2.0 / 3.0), 1.0, 1e-6);
    const run::StepReport second = trainer.train_step();
    EXPECT_DOUBLE_EQ(second.metrics.at("0.test.fitted.scale"), kLayers * 6.0 * 0.5);
    EXPECT_NEAR(second.grad_norm / (1e12 * std::sqrt(kLayers)), 1.0, 1e-6);
  }
}

TEST(Step, RefusesAGroupThatNamesNothing) {
  config::Experiment experiment = small_experiment();
  experiment.train.groups = {{.parameters = {"model.layer.*"}, .lr = 0.25}};
  EXPECT_THAT(error_of([&] { Trainer trainer(experiment); }),
              StartsWith("2: train.group 1: parameters: \"model.layer.*\" names no parameter"));
}

at::Tensor parameter(Trainer& trainer, const std::string& name) {
  for (const optim::TrainableParameter& parameter : trainer.runtime().parameters()) {
    if (parameter.name == name) return parameter.tensor;
  }
  throw std::logic_error("no parameter " + name);
}

void fill(Trainer& trainer, const std::string& name, double value) {
  const at::NoGradGuard no_grad;
  parameter(trainer, name).fill_(value);
  trainer.runtime().weights_changed();
}

TEST(Step, NamesTheFirstLayerThatIsNotFinite) {
  // Finite weights whose product is not.
  Trainer trainer(small_experiment(xl_cache(12), kPlain));
  trainer.train_step();
  fill(trainer, "model.layers.1.ff.in.bias", 1e200);
  fill(trainer, "model.layers.1.ff.out.weight", 1e200);
  const std::string error = error_of([&] { trainer.train_step(); });
  EXPECT_THAT(error, StartsWith("1: step 2: the training reached numbers that are not finite"));
  EXPECT_THAT(error, HasSubstr("the first thing that is not finite is layer 1 (from 0), output of "
                               "the feed-forward block, lane 0, segment 1 of the step"));
  EXPECT_EQ(trainer.step(), 1);
}

TEST(Step, NamesAParameterThatIsNotFinite) {
  Trainer trainer(small_experiment("", kPlain));
  fill(trainer, "model.layers.0.ff.norm.weight", std::nan(""));
  EXPECT_THAT(error_of([&] { trainer.train_step(); }),
              HasSubstr("not finite is parameter model.layers.0.ff.norm.weight"));
}

// The forward pass stays finite, the backward pass does not.
TEST(Step, NamesParametersWhenOnlyGradientsAreNotFinite) {
  Trainer trainer(small_experiment("", kPlain));
  parameter(trainer, "model.layers.0.ff.in.weight").register_hook([](const at::Tensor& gradient) {
    return gradient * INFINITY;
  });
  const std::string error = error_of([&] { trainer.train_step(); });
  EXPECT_THAT(error, StartsWith("1: step 1: the training reached numbers that are not finite"));
  EXPECT_THAT(error, HasSubstr("its forward passes are finite"));
  EXPECT_THAT(error, HasSubstr("parameters have gradients that are not finite, first "
                               "model.layers.0.ff.in.weight, last model.layers.0.ff.in.weight"));
}

// The gradients of the softmax's biases add up to 0 without it, and to the mean of twice the log of
// the denominator with it. Loss and norm are of two windows, whose segments have other numbers of
// targets.
TEST(ZLoss, IsTrainedAndNotReported) {
  std::vector<data::TokenSegment> segments = {random_segment(4, 6, 16, 1),
                                              random_segment(4, 6, 16, 2)};
  std::fill_n(segments[1].targets.begin(), 7, data::kNoTarget);
  const std::vector<std::string> settings =
      plain({"train.accumulate=2", "train.clip=0", "data.alphabet=16"});
  std::vector<std::string> with_z = settings;
  with_z.emplace_back("train.z_loss=0.3");
  Trainer trainer(small_experiment("", with_z), with_stream(segments)),
      without(small_experiment("", settings), with_stream(segments));
  double expected = 0.0;
  for (const data::TokenSegment& segment : segments) {
    const at::NoGradGuard no_grad;
    run::Runtime& runtime = trainer.runtime();
    memory::StackState state = runtime.stack().new_state(memory::Phase::kTraining, 4);
    eval::SegmentOptions with;
    with.forward.wants_log_sum = true;
    const backbone::Output out =
        eval::run_segment(runtime.model(), runtime.stack(), state, segment, with);
    const double mean =
        out.log_sum.sum().item<double>() / static_cast<double>(segment.target_count());
    expected += 0.3 * 2.0 * mean / 2.0;
  }
  const auto sum_of_biases = [](Trainer& one) {
    for (const optim::TrainableParameter& parameter : one.runtime().parameters())
      if (parameter.name == "model.softmax.0.bias")
        return parameter.tensor.grad().sum().item<double>();
    throw std::logic_error("no bias");
  };
  EXPECT_EQ(trainer.train_step().loss, without.train_step().loss);
  EXPECT_GT(expected, 0.5);
  EXPECT_NEAR(sum_of_biases(trainer), expected, 1e-12);
  EXPECT_NEAR(sum_of_biases(without), 0.0, 1e-12);
}

}  // namespace
}  // namespace mneme::train
