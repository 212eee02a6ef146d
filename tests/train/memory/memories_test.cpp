// Every memory at hand trains in every precision: slots in f32 beside rows and q/k/v in bf16.
#include <gtest/gtest.h>

#include <cmath>

#include "host/tensor/torch.hpp"
#include "tests/run/run_support.hpp"

namespace mneme::train {
namespace {

using test::small_experiment;
using test::tier;
using test::weights_of;

struct MemoriesCase {
  std::string name;
  std::string memory;

  friend std::ostream& operator<<(std::ostream& out, const MemoriesCase& c) {
    return out << c.name;
  }
};

class MemoryTraining : public testing::TestWithParam<std::tuple<std::string, MemoriesCase>> {};

TEST_P(MemoryTraining, StepsAreFiniteAndMoveEveryParameter) {
  const auto& [precision, memory] = GetParam();
  Trainer trainer(small_experiment(
      memory.memory, {"train.precision=" + precision, "train.bptt_segments=2", "train.warmup=0"}));
  const std::vector<at::Tensor> before = weights_of(trainer.runtime());
  for (int step = 0; step < 3; ++step) {
    const run::StepReport report = trainer.train_step();
    EXPECT_TRUE(std::isfinite(report.loss)) << "step " << report.step;
    EXPECT_GT(report.loss, 0.0);
  }
  const std::vector<at::Tensor> after = weights_of(trainer.runtime());
  for (std::size_t i = 0; i < after.size(); ++i) {
    const std::string& name = trainer.runtime().parameters()[i].name;
    EXPECT_TRUE(after[i].isfinite().all().item<bool>()) << name;
    EXPECT_FALSE(after[i].equal(before[i])) << name << " did not move";
  }
  EXPECT_TRUE(std::isfinite(trainer.evaluate_split(data::Split::kValid).loss()));
}

INSTANTIATE_TEST_SUITE_P(
    All, MemoryTraining,
    testing::Combine(
        testing::Values("f64", "f32", "bf16"),
        testing::Values(MemoriesCase{"xl_cache", test::xl_cache(8)},
                        MemoriesCase{"knn", tier("test_knn", "rows = 12\nneighbours = 3")},
                        MemoriesCase{"infini", test::infini()},
                        MemoriesCase{"everything", tier("test_everything")},
                        MemoriesCase{"everything_before", tier("test_everything", "before = true")},
                        MemoriesCase{"riders", tier("test_riders", "rows = 5")},
                        MemoriesCase{"all", test::xl_cache(4) + tier("test_knn", "rows = 12") +
                                                test::infini() + tier("test_riders", "rows = 5")})),
    [](const auto& made) { return std::get<1>(made.param).name + "_" + std::get<0>(made.param); });

}  // namespace
}  // namespace mneme::train
