#include <gmock/gmock.h>

#include <algorithm>

#include "host/base/log.hpp"
#include "host/base/text.hpp"
#include "host/run/checkpoint/checkpoint.hpp"
#include "host/run/run_folder.hpp"
#include "host/tensor/torch.hpp"
#include "host/train/trainer.hpp"
#include "host/weights/official_weights.hpp"
#include "host/weights/weight_files.hpp"
#include "tests/base/file_size_limit.hpp"
#include "tests/base/log_capture.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/run/run_support.hpp"

namespace mneme::test {
namespace {

using run::Runtime;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using train::Trainer;
using weights::InitialWeights;

// A run of a few steps in a folder, and another seed's runtime to fill from it.
class InitialWeightsOfARun : public ::testing::Test {
 protected:
  void train(const std::string& memory = "") {
    train::TrainerOptions options;
    options.folder = folder_ / "run";
    Trainer trainer(small_experiment(memory), std::move(options));
    trainer.train();
    weights_ = weights_of(trainer.runtime());
  }
  static std::unique_ptr<Runtime> other(const std::string& memory = "",
                                        std::vector<std::string> settings = {}) {
    settings.emplace_back("train.seed=99");
    return std::make_unique<Runtime>(small_experiment(memory, settings), run::RuntimeOptions{});
  }

  TemporaryFolder folder_;
  std::vector<at::Tensor> weights_;
};

// A runtime whose weights are loaded later draws none: parameters that are not loaded are NaN.
TEST_F(InitialWeightsOfARun, TakeThePlaceOfWeightsThatAreNotDrawn) {
  train(infini());
  Runtime runtime(small_experiment(infini()), {.weights_follow = true});
  for (const auto& parameter : runtime.parameters()) {
    EXPECT_TRUE(parameter.tensor.isnan().all().item<bool>()) << parameter.name;
  }
  weights::load_initial_weights(runtime, folder_ / "run");
  EXPECT_TRUE(is_same(weights_of(runtime), weights_));
}

// Parameters that the source lacks have the values that would have been drawn.
TEST_F(InitialWeightsOfARun, LeaveTheFirstValuesToWhatTheyLack) {
  train();
  config::Experiment experiment = small_experiment(infini());
  experiment.memory.carry = config::Carry::kReset;
  const Runtime drawn(experiment, {});
  Runtime runtime(experiment, {.weights_follow = true});
  const InitialWeights report = weights::load_initial_weights(runtime, folder_ / "run");
  const std::size_t backbone = runtime.model().parameters().size();
  ASSERT_EQ(report.fresh.size(), runtime.parameters().size() - backbone);
  for (std::size_t i = 0; i < runtime.parameters().size(); ++i) {
    const at::Tensor& expected = i < backbone ? weights_[i] : drawn.parameters()[i].tensor;
    EXPECT_TRUE(at::equal(runtime.parameters()[i].tensor, expected))
        << runtime.parameters()[i].name;
  }
}

// A slot that starts from a parameter starts from the given value, not from the drawn one.
TEST_F(InitialWeightsOfARun, AreThereBeforeTheFirstState) {
  const config::Experiment experiment =
      small_experiment("[[memory.tier]]\nplugin = \"test_everything\"\n");
  {
    train::TrainerOptions options;
    options.folder = folder_ / "run";
    Trainer trainer(experiment, std::move(options));
    const at::NoGradGuard no_grad;
    for (const auto& parameter : trainer.runtime().parameters()) {
      if (parameter.name.ends_with(".start")) at::Tensor(parameter.tensor).fill_(0.75);
    }
    trainer.save();
  }
  train::TrainerOptions options;
  options.initial_weights = folder_ / "run";
  const Trainer trainer(experiment, std::move(options));
  int slots = 0;
  for (const auto& [name, slot] : trainer.state().save().tensors) {
    if (!name.ends_with(".carried")) continue;
    ++slots;
    EXPECT_TRUE(slot.eq(0.75).all().item<bool>()) << name << slot;
  }
  EXPECT_EQ(slots, 2);  // layers
}

TEST_F(InitialWeightsOfARun, OfAnotherVocabularyAreWarnedOf) {
  const auto on_text = [&](const std::string& name, const std::string& line) {
    std::string text;
    for (int i = 0; i < 40; ++i) text += line;
    return small_experiment("", {"data.task=text", "data.vocabulary=char", "train.lanes=2",
                                 "data.train=" + folder_.write(name, text).string()});
  };
  const config::Experiment first = on_text("first.txt", "ab ba\n");
  train::TrainerOptions options;
  options.folder = folder_ / "run";
  Trainer(first, std::move(options)).save();
  const auto said = [&](const config::Experiment& experiment) {
    const LogCapture log;
    Runtime runtime(experiment, {});
    weights::load_initial_weights(runtime, folder_ / "run");
    return log.text();
  };
  EXPECT_EQ(said(first), "");
  EXPECT_THAT(said(on_text("other.txt", "cd dc\n")),
              AllOf(HasSubstr("it was trained with another vocabulary"),
                    HasSubstr("its weights stand for other symbols")));
}

TEST_F(InitialWeightsOfARun, AreThoseOfItsNewestCheckpoint) {
  train();
  const auto runtime = other();
  EXPECT_FALSE(is_same(weights_of(*runtime), weights_));
  const InitialWeights report = weights::load_initial_weights(*runtime, folder_ / "run");
  EXPECT_TRUE(is_same(weights_of(*runtime), weights_));
  EXPECT_FALSE(report.is_official);
  EXPECT_FALSE(report.is_rounded);
  EXPECT_THAT(report.fresh, IsEmpty());
  ASSERT_TRUE(runtime->weights_source().has_value());
  EXPECT_EQ(runtime->weights_source()->file, run::RunFolder::open(folder_ / "run").checkpoint());
  EXPECT_EQ(runtime->weights_source()->sha256.size(), 64U);
}

TEST_F(InitialWeightsOfARun, SayThatTheyAreRounded) {
  train();
  const auto runtime = other("", {"train.precision=f32"});
  const LogCapture log;
  EXPECT_TRUE(weights::load_initial_weights(*runtime, folder_ / "run").is_rounded);
  EXPECT_THAT(log.text(), HasSubstr("its F64 numbers are rounded: train.precision is \"f32\""));
}

TEST_F(InitialWeightsOfARun, LeaveTheMemoryWhatTheRunLacksOnlyWhenAskedTo) {
  train();
  const auto refused = other(infini());
  const std::vector<at::Tensor> before = weights_of(*refused);
  EXPECT_THAT(error_of([&] { weights::load_initial_weights(*refused, folder_ / "run"); }),
              HasSubstr("memory.carry = \"reset\""));
  EXPECT_TRUE(is_same(weights_of(*refused), before));
  EXPECT_FALSE(refused->weights_source().has_value());
  const auto taken = other(infini(), {"memory.carry=reset"});
  const LogCapture log;
  const InitialWeights report = weights::load_initial_weights(*taken, folder_ / "run");
  EXPECT_FALSE(report.fresh.empty());
  EXPECT_THAT(log.text(), HasSubstr(report.fresh.front()));
}

TEST_F(InitialWeightsOfARun, DoNotGoToATierWithOtherTrainedOptions) {
  train(fitted());
  const auto refused = other(fitted("tau = 0.75"));
  EXPECT_THAT(error_of([&] { weights::load_initial_weights(*refused, folder_ / "run"); }),
              AllOf(HasSubstr("tier 0.test.fitted: tau = 0.75, trained with 0.5"),
                    HasSubstr("memory.carry = \"reset\"")));
  EXPECT_FALSE(refused->weights_source().has_value());
  const auto taken = other(fitted("tau = 0.75"), {"memory.carry=reset"});
  const LogCapture log;
  EXPECT_THAT(weights::load_initial_weights(*taken, folder_ / "run").fresh,
              testing::ElementsAre("memory.0.test.fitted.0.gain", "memory.0.test.fitted.1.gain"));
  EXPECT_THAT(log.text(), HasSubstr("keep their first values"));
}

// The settings that differ say more than the shapes of all parameters.
TEST_F(InitialWeightsOfARun, NameTheSettingsOfAnotherModel) {
  train();
  const auto wider = other("", {"model.layers=3", "model.ff=40", "model.dropout=0.25"});
  const std::string error =
      error_of([&] { weights::load_initial_weights(*wider, folder_ / "run"); });
  EXPECT_THAT(error,
              AllOf(HasSubstr("the checkpoint belongs to another model:"),
                    HasSubstr("[model] layers: expected 3, got "),
                    HasSubstr("[model] ff: expected 40, got "), HasSubstr("  and "),
                    HasSubstr("give the experiment the [model] that the weights were trained "
                              "with: "),
                    HasSubstr("run/experiment.toml has it")));
  EXPECT_LE(std::ranges::count(error, '\n'), 12);
}

// The backbone lacks the weights of the attention that a memory replaces.
TEST_F(InitialWeightsOfARun, AreThoseOfTheMemoryThatReplacesAttention) {
  train(tier("test_retention", "own = true\nlayers = [0]"));
  const auto plain = other();
  EXPECT_THAT(error_of([&] { weights::load_initial_weights(*plain, folder_ / "run"); }),
              AllOf(HasSubstr("the checkpoint belongs to another model:"),
                    HasSubstr("use the memory that wrote it: one that replaces the attention of "
                              "layers is a part of the model")));
  const run::Checkpoint checkpoint =
      run::Checkpoint::open(run::RunFolder::open(folder_ / "run").checkpoint());
  EXPECT_THAT(error_of([&] {
                static_cast<void>(weights::export_official(checkpoint, folder_ / "x.safetensors"));
              }),
              AllOf(HasSubstr("the official code has no such model"),
                    HasSubstr("layer 0 has no attention: the memory replaces it")));
}

// The layer has the projections of an attention, and not its function.
TEST_F(InitialWeightsOfARun, AreNoOfficialOnesOfAMemoryThatTakesTheProjections) {
  train(tier("test_retention", "key_width = 8\nvalue_width = 8\nlayers = [1]"));
  const run::Checkpoint checkpoint =
      run::Checkpoint::open(run::RunFolder::open(folder_ / "run").checkpoint());
  EXPECT_TRUE(checkpoint.has_attention(0));
  EXPECT_NE(checkpoint.file().find("model.layers.1.attention.qkv.weight"), nullptr);
  EXPECT_THAT(error_of([&] {
                static_cast<void>(weights::export_official(checkpoint, folder_ / "x.safetensors"));
              }),
              HasSubstr("layer 1 has no attention: the memory replaces it"));
}

TEST_F(InitialWeightsOfARun, NeedACheckpointOrOfficialWeights) {
  const auto runtime = other();
  EXPECT_THAT(error_of([&] { weights::load_initial_weights(*runtime, folder_ / "absent"); }),
              HasSubstr("absent"));
  EXPECT_THAT(error_of([&] { weights::load_initial_weights(*runtime, folder_.path()); }),
              HasSubstr("this is no run of mneme"));
  folder_.write("noise", "hello, world");
  EXPECT_THAT(error_of([&] { weights::load_initial_weights(*runtime, folder_ / "noise"); }),
              HasSubstr("is not a safetensors file"));
}

TEST_F(InitialWeightsOfARun, GiveTheNewRunACheckpointOfStep0) {
  train();
  train::TrainerOptions options;
  options.folder = folder_ / "new";
  options.initial_weights = folder_ / "run";
  const Trainer trainer(small_experiment("", {"train.seed=99"}), std::move(options));
  EXPECT_EQ(trainer.step(), 0);
  const run::RunFolder run = run::RunFolder::open(folder_ / "new");
  EXPECT_EQ(run::Checkpoint::open(run.checkpoint()).progress().step, 0);
  EXPECT_TRUE(run.info().contains("initial_weights"));
  const auto copy = other();
  weights::load_initial_weights(*copy, folder_ / "new");
  EXPECT_TRUE(is_same(weights_of(*copy), weights_));
}

TEST_F(InitialWeightsOfARun, AreNotReplacedByOthersWhenTheFirstCheckpointIsLost) {
  train();
  {
    train::TrainerOptions options;
    options.folder = folder_ / "new";
    options.initial_weights = folder_ / "run";
    const Trainer trainer(small_experiment(), std::move(options));
  }
  std::filesystem::remove(run::RunFolder::open(folder_ / "new").checkpoint());
  EXPECT_THAT(
      error_of([&] { Trainer::resume(folder_ / "new"); }),
      HasSubstr("the run began with given weights, and the checkpoint that holds them is missing"));
}

TEST_F(InitialWeightsOfARun, ThatCannotBeWrittenMakeNoRun) {
  train();
  train::TrainerOptions options;
  options.folder = folder_ / "new";
  options.initial_weights = folder_ / "run";
  const FileSizeLimit full(8192);  // room for all but the checkpoint
  EXPECT_THAT(error_of([&] { Trainer trainer(small_experiment(), std::move(options)); }),
              AllOf(HasSubstr("step_00000000.safetensors"), HasSubstr("cannot write")));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "new"));
}

TEST_F(InitialWeightsOfARun, ThatDoNotFitMakeNoFolder) {
  train();
  train::TrainerOptions options;
  options.folder = folder_ / "new";
  options.initial_weights = folder_ / "run";
  EXPECT_THAT(error_of([&] { Trainer(small_experiment("", {"model.ff=25"}), std::move(options)); }),
              HasSubstr("expected [25, 16], got [24, 16]"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "new"));
}

}  // namespace
}  // namespace mneme::test
