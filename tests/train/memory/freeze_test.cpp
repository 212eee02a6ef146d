// train.freeze: a backbone that keeps its weights while its memory is trained.
#include <gmock/gmock.h>

#include <algorithm>

#include "host/base/file/safetensors.hpp"
#include "host/run/cost/footprint.hpp"
#include "host/tensor/torch.hpp"
#include "host/train/trainer.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/run/run_support.hpp"

namespace mneme::train {
namespace {

using test::error_of;
using test::infini;
using test::small_experiment;
using test::xl_cache;
using ::testing::HasSubstr;

const std::vector<std::string> kFrozen = {"train.freeze=\"backbone\"", "train.weight_decay=0.1",
                                          "train.optimizer=\"adamw\""};

TEST(Freeze, TrainsTheMemoryAlone) {
  Trainer trainer(small_experiment(infini(), kFrozen));
  const std::vector<at::Tensor> before = test::weights_of(trainer.runtime());
  double norm = 0.0;  // 0 in the first step, where the memory is empty
  for (int i = 0; i < 6; ++i) norm = trainer.train_step().grad_norm;
  const auto& parameters = trainer.runtime().parameters();
  std::size_t trained = 0;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const bool is_memory = parameters[i].name.starts_with("memory.");
    EXPECT_EQ(parameters[i].tensor.equal(before[i]), !is_memory) << parameters[i].name;
    EXPECT_EQ(parameters[i].tensor.grad().defined(), is_memory) << parameters[i].name;
    trained += is_memory ? 1 : 0;
  }
  EXPECT_GT(trained, 0U);
  EXPECT_GT(norm, 0.0);
}

// Its first segment reads nothing, so that no loss depends on what is trained.
TEST(Freeze, PassesStepsWithoutAGradient) {
  Trainer trainer(small_experiment(
      "[[memory.tier]]\nplugin = \"continuous_ltm\"\nbasis = 4\nfeed = \"segment\"\n", kFrozen));
  EXPECT_EQ(trainer.train_step().grad_norm, 0.0);
  double norm = 0.0;
  for (int i = 0; i < 4; ++i) norm = trainer.train_step().grad_norm;
  EXPECT_GT(norm, 0.0);
}

TEST(Freeze, KeepsMomentsOfTheMemoryAlone) {
  const test::TemporaryFolder folder;
  Trainer trainer(small_experiment(infini(), kFrozen));
  trainer.train_step();
  trainer.save(folder / "checkpoint.safetensors");
  const SafetensorsFile file = SafetensorsFile::open(folder / "checkpoint.safetensors");
  std::size_t of_memory = 0, of_backbone = 0, weights = 0;
  for (const std::string& name : file.names()) {
    const bool is_moment = name.starts_with("adam.");
    weights += name.starts_with("model.") ? 1 : 0;
    if (is_moment) ++(name.find("/memory.") == std::string::npos ? of_backbone : of_memory);
  }
  EXPECT_GT(weights, 0U) << "the backbone's weights are in every checkpoint";
  EXPECT_GT(of_memory, 0U);
  EXPECT_EQ(of_backbone, 0U);
}

TEST(Freeze, NeedsLessMemoryByTheEstimate) {
  const auto bytes_of = [](const std::vector<std::string>& settings, const std::string& part) {
    const run::Runtime runtime(small_experiment(infini(), settings), run::RuntimeOptions{});
    for (const run::FootprintPart& one : run::training_footprint(runtime).uses) {
      if (one.name == part) return one.bytes;
    }
    ADD_FAILURE() << part;
    return std::int64_t{0};
  };
  for (const char* part : {"gradients", "optimiser moments"}) {
    EXPECT_LT(bytes_of(kFrozen, part) * 10, bytes_of({}, part)) << part;
  }
  EXPECT_EQ(bytes_of(kFrozen, "parameters"), bytes_of({}, "parameters"));
}

// The projections' low-rank updates are trained in place of the backbone, without any memory.
TEST(Freeze, TrainsLowRankUpdates) {
  std::vector<std::string> settings = kFrozen;
  settings.emplace_back("model.lora_rank=3");
  Trainer trainer(small_experiment("", settings));
  const std::vector<at::Tensor> before = test::weights_of(trainer.runtime());
  for (int i = 0; i < 3; ++i) trainer.train_step();
  const auto& parameters = trainer.runtime().parameters();
  std::size_t trained = 0;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const bool is_update = backbone::is_low_rank_update(parameters[i].name);
    EXPECT_EQ(parameters[i].tensor.equal(before[i]), !is_update) << parameters[i].name;
    trained += is_update ? 1 : 0;
  }
  EXPECT_EQ(trained, 8U);
}

TEST(Freeze, RefusesAMemoryWithoutParameters) {
  for (const std::string& memory : {std::string(), xl_cache(9)}) {
    EXPECT_THAT(error_of([&] { Trainer trainer(small_experiment(memory, kFrozen)); }),
                HasSubstr("train.freeze = \"backbone\": nothing is trained: the memory has no "
                          "parameters"));
  }
}

}  // namespace
}  // namespace mneme::train
