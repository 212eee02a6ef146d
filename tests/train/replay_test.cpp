// train.replay: windows that are recorded and run again without hooks, beside a training without.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "host/base/log.hpp"
#include "host/kernel/adam.hpp"
#include "host/kernel/cross_entropy.hpp"
#include "host/kernel/rows.hpp"
#include "host/tensor/host_kernels.hpp"
#include "host/tensor/padded_product.hpp"
#include "host/tensor/torch.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/run/run_support.hpp"
#include "tests/tensor/fake_graph_device.hpp"

namespace mneme::train {
namespace {

using test::infini;
using test::is_same;
using test::random_segment;
using test::small_experiment;
using test::tier;
using test::weights_of;
using test::with_stream;
using test::xl_cache;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

// What is logged while it lives.
class Lines {
 public:
  [[nodiscard]] std::vector<std::string> with(const std::string& text) const {
    std::vector<std::string> out;
    for (const std::string& line : all_) {
      if (line.find(text) != std::string::npos) out.push_back(line);
    }
    return out;
  }

 private:
  std::vector<std::string> all_;
  LogListener listener_{[this](LogLevel, std::string_view line) {
    all_.emplace_back(line);
    return false;
  }};
};

std::vector<std::string> with_replay(std::vector<std::string> settings) {
  settings.emplace_back("train.replay=on");
  return settings;
}

// Everything that a training has after a step.
std::vector<at::Tensor> all_of(Trainer& trainer) {
  std::vector<at::Tensor> out = weights_of(trainer.runtime());
  for (const auto& [name, tensor] : trainer.state().save().tensors) out.push_back(tensor.clone());
  return out;
}

// Steps of both; every number has to have the same bits.
void expect_the_same(Trainer& recorded, Trainer& plain, int steps) {
  for (int step = 0; step < steps; ++step) {
    const run::StepReport ours = recorded.train_step(), theirs = plain.train_step();
    ASSERT_EQ(ours.loss, theirs.loss) << "step " << ours.step;
    ASSERT_EQ(ours.losses, theirs.losses) << "step " << ours.step;
    ASSERT_EQ(ours.metrics, theirs.metrics) << "step " << ours.step;
    ASSERT_EQ(ours.grad_norm, theirs.grad_norm) << "step " << ours.step;
    ASSERT_EQ(ours.tokens, theirs.tokens);
    ASSERT_TRUE(is_same(all_of(recorded), all_of(plain))) << "step " << ours.step;
    ASSERT_EQ(recorded.state().counters().tokens, plain.state().counters().tokens);
    ASSERT_EQ(recorded.state().segments(), plain.state().segments());
  }
}

// Without resets: each set of lanes that are reset is a key of its own.
std::vector<data::TokenSegment> text(std::uint64_t segments) {
  std::vector<data::TokenSegment> out;
  for (std::uint64_t i = 0; i < segments; ++i) out.push_back(random_segment(4, 6, 8, i));
  return out;
}

// By the kernels that a GPU uses for rows, losses and updates, whose definitions stand for them, and
// with its padded products in bf16.
void expect_the_bits_of_hooks_with_kernels(bool has_graphs) {
  const tensor::WithRowKernels kernels(kernel::row_definitions(),
                                       &kernel::CrossEntropyKernels::by_definition(),
                                       &kernel::AdamKernels::by_definition());
  const tensor::WithPaddedProducts padded;
  for (const std::string precision : {"f64", "f32", "bf16"}) {
    for (const auto& [memory, position] : {std::pair<std::string, std::string>{"", "relative"},
                                           {xl_cache(8), "rotary"},
                                           {infini(), "relative"}}) {
      SCOPED_TRACE(precision + memory);
      const std::vector<std::string> settings = {"train.precision=" + precision,
                                                 "model.position=" + position,
                                                 "model.width=12",
                                                 "model.head_width=6",
                                                 "model.ff=20",
                                                 "train.bptt_segments=2",
                                                 "train.accumulate=2",
                                                 "train.warmup=0",
                                                 "model.dropout=0.1",
                                                 "model.attention_dropout=0.1"};
      const Lines lines;
      Trainer plain(small_experiment(memory, settings), with_stream(text(48)));
      Trainer recorded(small_experiment(memory, with_replay(settings)), with_stream(text(48)));
      expect_the_same(recorded, plain, 10);
      EXPECT_THAT(lines.with("train.replay"), SizeIs(0)) << lines.with("train.replay").front();
      EXPECT_GT(recorded.recorder()->replays(), 0);
      EXPECT_EQ(recorded.recorder()->launches(), has_graphs ? recorded.recorder()->replays() : 0);
    }
  }
}

TEST(Replay, HasTheBitsOfHooksWithKernels) { expect_the_bits_of_hooks_with_kernels(false); }

TEST(Replay, HasTheBitsOfHooksWithKernelsAsGraphs) {
  const test::WithFakeGraphs graphs;
  expect_the_bits_of_hooks_with_kernels(true);
}

// An evaluation reads weights in bf16 that no window does, such as the bias of an adaptive softmax.
// Updates write these copies from then on, which recordings made before do not.
TEST(Replay, WritesCopiesThatAnEvaluationHasMade) {
  const tensor::WithRowKernels kernels(kernel::row_definitions(),
                                       &kernel::CrossEntropyKernels::by_definition(),
                                       &kernel::AdamKernels::by_definition());
  const std::vector<std::string> settings = {"train.precision=bf16", "train.warmup=0",
                                             "train.steps=40"};
  std::vector<std::string> recording = with_replay(settings);
  recording.emplace_back("train.replay_check=4");
  const Lines lines;
  Trainer plain(small_experiment("", settings), with_stream(text(48)));
  Trainer recorded(small_experiment("", recording), with_stream(text(48)));
  expect_the_same(recorded, plain, 9);
  at::Tensor bias;
  for (const optim::TrainableParameter& parameter : recorded.runtime().parameters())
    if (parameter.tensor.dim() == 1) bias = parameter.tensor.detach();
  backbone::ConvertedWeights& converted = recorded.runtime().model().converted();
  ASSERT_FALSE(converted.written_with(bias).defined());
  const at::Tensor copy = converted.get(bias, at::kBFloat16);
  const std::int64_t replays = recorded.recorder()->replays();
  EXPECT_GT(replays, 0);
  expect_the_same(recorded, plain, 9);
  EXPECT_GT(recorded.recorder()->replays(), replays);
  EXPECT_TRUE(at::equal(copy, bias.to(at::kBFloat16)));
  EXPECT_THAT(lines.with("train.replay"), SizeIs(0));
}

struct ReplayCase {
  std::string name;
  std::string memory;
  std::string position = "relative";

  friend std::ostream& operator<<(std::ostream& out, const ReplayCase& c) { return out << c.name; }
};

class ReplayedTraining
    : public testing::TestWithParam<std::tuple<std::string, int, std::string, ReplayCase>> {};

std::vector<std::string> settings_of(const ReplayedTraining::ParamType& made) {
  const auto& [precision, segments, dropout, memory] = made;
  return {"train.precision=" + precision,
          str("train.bptt_segments=", segments),
          "train.accumulate=2",
          "train.warmup=0",
          "model.dropout=" + dropout,
          "model.attention_dropout=" + dropout,
          "model.position=" + memory.position};
}

TEST_P(ReplayedTraining, HasTheBitsOfOneWithHooks) {
  const ReplayCase& memory = std::get<3>(GetParam());
  const std::vector<std::string> settings = settings_of(GetParam());
  const Lines lines;
  Trainer plain(small_experiment(memory.memory, settings), with_stream(text(72)));
  Trainer recorded(small_experiment(memory.memory, with_replay(settings)), with_stream(text(72)));
  expect_the_same(recorded, plain, 12);
  EXPECT_THAT(lines.with("train.replay"), SizeIs(0)) << lines.with("train.replay").front();
  EXPECT_GT(recorded.recorder()->replays(), 0);
  EXPECT_EQ(plain.recorder(), nullptr);
}

// As a device's graphs do: what draws runs ahead, the rest is launched from memory of its own.
TEST_P(ReplayedTraining, HasTheBitsOfOneWithHooksAsAGraph) {
  const ReplayCase& memory = std::get<3>(GetParam());
  const std::vector<std::string> settings = settings_of(GetParam());
  const Lines lines;
  const test::WithFakeGraphs graphs;
  Trainer plain(small_experiment(memory.memory, settings), with_stream(text(72)));
  Trainer recorded(small_experiment(memory.memory, with_replay(settings)), with_stream(text(72)));
  expect_the_same(recorded, plain, 12);
  EXPECT_THAT(lines.with("train.replay"), SizeIs(0)) << lines.with("train.replay").front();
  EXPECT_GT(recorded.recorder()->launches(), 0);
  EXPECT_EQ(recorded.recorder()->launches(), recorded.recorder()->replays());
}

// Every memory with every precision, and in f32 with every length of a graph, with dropout and
// without; in f64 and bf16 with the shortest way and the longest.
std::vector<ReplayedTraining::ParamType> replayed_trainings() {
  const std::vector<ReplayCase> memories = {
      {"none", ""},
      {"xl_cache", xl_cache(8)},
      {"compressive", tier("compressive", "rows = 6\ncompressed_rows = 4\nrate = 3")},
      {"continuous_ltm",
       xl_cache(4) + tier("continuous_ltm", "basis = 8\nsticky = true\nlambda_kl = 1e-3")},
      {"lamemo", tier("lamemo", "rows = 8"), "disentangled"},
      {"infini", infini()},
      {"riders", tier("test_riders", "rows = 5")}};
  std::vector<ReplayedTraining::ParamType> out;
  for (const ReplayCase& memory : memories) {
    for (const char* const precision : {"f32", "bf16", "f64"}) {
      const bool is_every_way = std::string_view(precision) == "f32";
      out.emplace_back(precision, 1, "0.0", memory);
      out.emplace_back(precision, 3, "0.1", memory);
      if (!is_every_way) continue;
      out.emplace_back(precision, 1, "0.1", memory);
      out.emplace_back(precision, 3, "0.0", memory);
    }
  }
  return out;
}

INSTANTIATE_TEST_SUITE_P(All, ReplayedTraining, testing::ValuesIn(replayed_trainings()),
                         [](const auto& made) {
                           return str(std::get<3>(made.param).name, '_', std::get<0>(made.param),
                                      "_bptt", std::get<1>(made.param),
                                      std::get<2>(made.param) == "0.0" ? "" : "_dropout");
                         });

// Lanes that end early, and lanes that are reset, are keys of their own; they come again.
void expect_the_bits_of_hooks_with_resets() {
  std::vector<data::TokenSegment> segments;
  for (std::uint64_t i = 0; i < 80; ++i) {
    data::TokenSegment segment = random_segment(4, 6, 8, i);
    if (i % 4 == 2) segment.reset[1] = 1;
    if (i % 4 == 1) {
      segment.valid[1] = 4;
      for (std::size_t t = 4; t < 6; ++t)
        segment.inputs[6 + t] = 0, segment.targets[6 + t] = data::kNoTarget;
    }
    segments.push_back(segment);
  }
  for (const std::string& memory : {xl_cache(9), xl_cache(7) + infini()}) {
    SCOPED_TRACE(memory);
    const std::vector<std::string> settings = {"train.bptt_segments=2", "train.warmup=0",
                                               "train.steps=40"};
    const Lines lines;
    Trainer plain(small_experiment(memory, settings), with_stream(segments));
    Trainer recorded(small_experiment(memory, with_replay(settings)), with_stream(segments));
    expect_the_same(recorded, plain, 24);
    EXPECT_GT(recorded.recorder()->replays(), 4);
    EXPECT_THAT(lines.with("train.replay"), SizeIs(0));
  }
}

TEST(Replay, HasTheBitsOfHooksWithResetLanesAndPadding) { expect_the_bits_of_hooks_with_resets(); }

TEST(Replay, HasTheBitsOfHooksWithResetLanesAndPaddingAsGraphs) {
  const test::WithFakeGraphs graphs;
  expect_the_bits_of_hooks_with_resets();
  EXPECT_GT(graphs.all.launches, 4);
  EXPECT_EQ(graphs.all.ended, graphs.all.captures);
}

// The update is a part of the recording of a step's last window: by rates that differ from step to
// step and between tiers, behind gradients of several windows, clipped or not.
void expect_the_updates_of_hooks(const std::vector<std::string>& update) {
  std::vector<std::string> settings = {"train.accumulate=3", "train.warmup=4", "train.steps=16",
                                       "train.lr_min=1e-4"};
  settings.insert(settings.end(), update.begin(), update.end());
  std::vector<std::string> recording = with_replay(settings);
  recording.emplace_back("train.replay_check=9");
  const std::string memory = xl_cache(8) + infini("lr = 3e-3");
  const Lines lines;
  Trainer plain(small_experiment(memory, settings), with_stream(text(30)));
  Trainer recorded(small_experiment(memory, recording), with_stream(text(30)));
  expect_the_same(recorded, plain, 10);
  EXPECT_THAT(lines.with("train.replay"), SizeIs(0)) << lines.with("train.replay").front();
  EXPECT_GT(recorded.recorder()->replays(), 10);
}

TEST(Replay, UpdatesByEveryOptimizerAndSchedule) {
  expect_the_updates_of_hooks({"train.optimizer=adam", "train.schedule=cosine", "train.clip=0"});
  expect_the_updates_of_hooks(
      {"train.optimizer=adamw", "train.schedule=inverse_sqrt", "train.precision=bf16"});
  expect_the_updates_of_hooks(
      {"train.optimizer=muon", "train.schedule=wsd", "train.clip=0.01", "train.z_loss=0.01"});
}

TEST(Replay, UpdatesByEveryOptimizerAndScheduleAsGraphs) {
  const test::WithFakeGraphs graphs;
  expect_the_updates_of_hooks({"train.optimizer=adam", "train.schedule=constant", "train.clip=0.01",
                               "train.weight_decay=0.1", "train.precision=f32"});
  expect_the_updates_of_hooks({"train.optimizer=adamw", "train.schedule=linear", "train.clip=0.01",
                               "train.weight_decay=0.1"});
  expect_the_updates_of_hooks({"train.optimizer=muon", "train.schedule=wsd_sqrt",
                               "train.weight_decay=0.1", "train.precision=bf16"});
}

void fill_first_parameter(Trainer& trainer, const at::Tensor& values) {
  trainer.runtime().parameters().front().tensor.detach().copy_(values);
}

// Its recording finds it, and its hooks name it.
TEST(Replay, ChangesNothingInAStepThatIsNotFinite) {
  for (const bool has_graphs : {false, true}) {
    std::optional<test::WithFakeGraphs> graphs;
    if (has_graphs) graphs.emplace();
    const std::vector<std::string> settings = {"train.accumulate=2", "train.warmup=0",
                                               "train.steps=40"};
    Trainer plain(small_experiment(xl_cache(8), settings), with_stream(text(48)));
    Trainer recorded(small_experiment(xl_cache(8), with_replay(settings)), with_stream(text(48)));
    expect_the_same(recorded, plain, 8);
    const at::Tensor values = plain.runtime().parameters().front().tensor.detach().clone();
    for (Trainer* const one : {&plain, &recorded})
      fill_first_parameter(*one, at::full_like(values, std::numeric_limits<double>::infinity()));
    const std::string error = test::error_of([&] { plain.train_step(); });
    EXPECT_THAT(error, HasSubstr("step 9: the training reached numbers that are not finite"));
    const std::int64_t replays = recorded.recorder()->replays();
    EXPECT_EQ(test::error_of([&] { recorded.train_step(); }), error);
    EXPECT_EQ(recorded.recorder()->replays(), replays + 2);
    EXPECT_TRUE(is_same(all_of(recorded), all_of(plain)));
    EXPECT_EQ(recorded.step(), 8);
    EXPECT_EQ(recorded.tokens(), plain.tokens());
    for (Trainer* const one : {&plain, &recorded}) fill_first_parameter(*one, values);
    expect_the_same(recorded, plain, 4);
    EXPECT_EQ(recorded.recorder()->replays(), replays + 2 + 4 * 2);
  }
}

// The step behind it, which has begun by then, changes nothing either.
TEST(Replay, ChangesNothingInStepsThatAreReadLate) {
  std::vector<std::string> errors;
  std::vector<std::vector<at::Tensor>> left;
  for (const bool is_late : {false, true}) {
    const test::WithFakeGraphs graphs;
    TrainerOptions options = with_stream(text(40));
    options.reads_late = is_late;
    Trainer trainer(
        small_experiment(xl_cache(8), with_replay({"train.steps=40", "train.log_every=100"})),
        std::move(options));
    std::vector<std::int64_t> reported;
    errors.push_back(test::error_of([&] {
      trainer.run_steps([&](const run::StepReport& report, bool) {
        reported.push_back(report.step);
        if (trainer.step() != 9) return;
        const at::Tensor& first = trainer.runtime().parameters().front().tensor;
        fill_first_parameter(trainer, at::full_like(first.detach(), std::nan("")));
      });
    }));
    EXPECT_EQ(reported.back(), 9);
    EXPECT_EQ(trainer.step(), 9);
    EXPECT_GE(graphs.all.launches, is_late ? 6 : 4);
    left.push_back(all_of(trainer));
  }
  EXPECT_THAT(errors[0], HasSubstr("step 10: the training reached numbers that are not finite"));
  EXPECT_EQ(errors[0], errors[1]);
  for (std::size_t i = 0; i < left[0].size(); ++i)
    EXPECT_TRUE(at::allclose(left[0][i], left[1][i], 0.0, 0.0, /*equal_nan=*/true)) << i;
}

// The step before shows it, and the training goes on with single operations.
TEST(Replay, LeavesAGraphThatDoesNotSeeItsInputs) {
  test::WithFakeGraphs graphs;
  graphs.all.launches_nothing = true;
  const std::vector<std::string> settings = {"train.warmup=0"};
  const Lines lines;
  Trainer plain(small_experiment(xl_cache(8), settings), with_stream(text(12)));
  Trainer recorded(small_experiment(xl_cache(8), with_replay(settings)), with_stream(text(12)));
  expect_the_same(recorded, plain, 12);
  EXPECT_GT(recorded.recorder()->replays(), 0);
  EXPECT_EQ(recorded.recorder()->launches(), 0);
  EXPECT_THAT(lines.with("train.replay"),
              ElementsAre(AllOf(HasSubstr("the operations of a window are run again one by one"),
                                HasSubstr("the first launch of a graph gave other numbers"))));
}

TEST(Replay, GoesOnAfterACheckpoint) {
  const test::TemporaryFolder folder;
  const std::vector<std::string> settings = {"train.bptt_segments=2", "train.accumulate=2",
                                             "train.warmup=0"};
  const std::string memory = xl_cache(9) + infini();
  Trainer plain(small_experiment(memory, settings));
  Trainer first(small_experiment(memory, with_replay(settings)));
  Trainer second(small_experiment(memory, with_replay(settings)));
  expect_the_same(first, plain, 7);
  first.save(folder / "checkpoint.safetensors");
  for (int i = 0; i < 9; ++i) second.train_step();  // has recordings, of other weights
  second.load(folder / "checkpoint.safetensors");
  EXPECT_EQ(second.recorder()->recordings(), 0U);
  expect_the_same(second, plain, 7);
  EXPECT_GT(second.recorder()->replays(), 0);
}

// A kernel of a plugin that does not say that it can be captured.
TEST(Replay, RunsOneByOneAKernelThatNoGraphMayHold) {
  const test::WithFakeGraphs graphs;
  const std::vector<std::string> settings = {"train.warmup=0"};
  const auto experiment = [](const std::vector<std::string>& with) {
    config::Experiment out = small_experiment(tier("test_flawed"), with);
    out.memory.plugins.emplace_back(MNEME_BINARY_DIR "/tests/flawed_plugins");
    return out;
  };
  const Lines lines;
  Trainer plain(experiment(settings), with_stream(text(12)));
  Trainer recorded(experiment(with_replay(settings)), with_stream(text(12)));
  expect_the_same(recorded, plain, 12);
  EXPECT_GT(recorded.recorder()->replays(), 0);
  EXPECT_EQ(graphs.all.captures, 0);
  EXPECT_THAT(lines.with("train.replay"),
              ElementsAre(AllOf(HasSubstr("does not say that it can be captured: kernel "),
                                HasSubstr("] of plugin "))));
}

// The planted faults of the checks replay.trace and replay.numbers.
TEST(Replay, LeavesAMemoryThatCannotBeRecordedToItsHooks) {
  const std::vector<std::string> settings = {"train.bptt_segments=3", "train.warmup=0"};
  for (const auto& [fault, line] :
       {std::pair{"counts_hidden", "operation "}, std::pair{"kernel_armed", " differs by "}}) {
    SCOPED_TRACE(fault);
    const auto experiment = [fault = fault](const std::vector<std::string>& with) {
      config::Experiment out =
          small_experiment(tier("test_flawed", str("fault = \"", fault, "\"")), with);
      out.memory.plugins.emplace_back(MNEME_BINARY_DIR "/tests/flawed_plugins");
      return out;
    };
    const Lines lines;
    Trainer plain(experiment(settings), with_stream(text(36)));
    Trainer recorded(experiment(with_replay(settings)), with_stream(text(36)));
    expect_the_same(recorded, plain, 12);
    EXPECT_EQ(recorded.recorder()->replays(), 0);
    EXPECT_THAT(lines.with("train.replay"),
                ElementsAre(AllOf(HasSubstr("a window is not recorded"), HasSubstr(line))));
  }
}

}  // namespace
}  // namespace mneme::train
