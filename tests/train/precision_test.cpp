#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "host/run/run_folder.hpp"
#include "host/run/runtime.hpp"
#include "host/tensor/dense_product.hpp"
#include "host/tensor/host_kernels.hpp"
#include "host/train/trainer.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/run/run_support.hpp"

namespace mneme::train {
namespace {

using config::Precision;

TEST(Bf16, IsWarnedOfOnProcessorsWithoutIt) {
  EXPECT_TRUE(tensor::is_slow_bf16(Precision::kBf16, c10::kCPU, false));
  EXPECT_FALSE(tensor::is_slow_bf16(Precision::kBf16, c10::kCPU, true));
  EXPECT_FALSE(tensor::is_slow_bf16(Precision::kF32, c10::kCPU, false));
  EXPECT_TRUE(tensor::is_slow_bf16(Precision::kBf16, c10::kCUDA, false));
  EXPECT_FALSE(tensor::is_slow_bf16(Precision::kBf16, c10::kCUDA, true));
  EXPECT_THAT(tensor::slow_bf16_text_of_gpu(75),
              testing::AllOf(testing::HasSubstr("this GPU has no instructions for it (compute "
                                                "capability 7.5, from 8.0 on)"),
                             testing::HasSubstr("--set train.precision=auto takes f32")));
  EXPECT_THAT(tensor::slow_bf16_text(7.26),
              testing::AllOf(testing::HasSubstr("no instructions for it"),
                             testing::HasSubstr("takes 7.3 times as long as in f32"),
                             testing::HasSubstr("--set train.precision=auto")));
  EXPECT_GT(tensor::bf16_time_ratio(), 0.0);
}

TEST(Precision, AutoIsChosenForTheDeviceAndKeptByTheRun) {
  const Precision fast = tensor::has_bf16_units() ? Precision::kBf16 : Precision::kF32;
  EXPECT_EQ(run::chosen_precision(Precision::kAuto, c10::kCPU), fast);
  for (const std::int64_t capability : {0, 80, 89, 90, 120}) {
    EXPECT_EQ(run::chosen_precision(Precision::kAuto, c10::kCUDA, capability), Precision::kBf16);
  }
  for (const std::int64_t capability : {60, 70, 75}) {
    EXPECT_EQ(run::chosen_precision(Precision::kAuto, c10::kCUDA, capability), Precision::kF32);
    EXPECT_EQ(run::chosen_precision(Precision::kBf16, c10::kCUDA, capability), Precision::kBf16);
  }
  EXPECT_EQ(run::chosen_precision(Precision::kF64, c10::kCPU), Precision::kF64);

  const test::TemporaryFolder folder;
  TrainerOptions options;
  options.folder = folder / "run";
  const Trainer trainer(test::small_experiment("", {"train.precision=auto"}), std::move(options));
  EXPECT_EQ(trainer.experiment().train.precision, fast);
  const config::Experiment stored = run::RunFolder::open(folder / "run").experiment();
  EXPECT_EQ(stored.train.precision, fast);
  EXPECT_EQ(stored.eval.precision, fast);  // train.precision by default
}

// A device's kernel that updates parameters writes their copies, by its definition.
struct WithAdam {
  tensor::WithRowKernels kernels;
  explicit WithAdam(const kernel::AdamKernels& adam)
      : kernels(kernel::row_definitions(), nullptr, &adam) {}
};

// Losses of four steps; `between` comes behind each.
std::vector<double> losses_of(
    Trainer& trainer, const std::function<void()>& between = [] {}) {
  std::vector<double> out;
  for (int step = 0; step < 4; ++step) {
    out.push_back(trainer.train_step().loss);
    between();
  }
  return out;
}

TEST(Bf16, CopiesThatTheUpdateWritesAreThoseOfItsWeights) {
  const WithAdam kernels(kernel::AdamKernels::by_definition());
  const config::Experiment experiment =
      test::small_experiment(test::xl_cache(8), {"train.precision=bf16", "train.warmup=0"});
  Trainer ours(experiment), converted(experiment);
  EXPECT_EQ(losses_of(ours), losses_of(converted, [&] { converted.runtime().weights_changed(); }));
  EXPECT_TRUE(
      test::is_same(test::weights_of(ours.runtime()), test::weights_of(converted.runtime())));
  // A resumed training has copies of what it has read.
  const test::TemporaryFolder folder;
  ours.save(folder / "checkpoint.safetensors");
  Trainer resumed(experiment);
  losses_of(resumed);
  losses_of(resumed);
  resumed.load(folder / "checkpoint.safetensors");
  EXPECT_EQ(losses_of(resumed), losses_of(ours));
}

// So nothing else converts them.
TEST(Bf16, CopiesAreLeftToTheKernelOfTheUpdate) {
  const auto losses = [](const kernel::AdamKernels& adam, const std::string& row_kernels) {
    const WithAdam kernels(adam);
    Trainer trainer(test::small_experiment(
        "", {"train.precision=bf16", "train.warmup=0", "model.row_kernels=" + row_kernels}));
    return losses_of(trainer);
  };
  const kernel::AdamKernels writes_none = {[](const kernel::AdamRule& rule,
                                              const kernel::AdamTensor* tensors, std::int64_t count,
                                              void* stream) {
    std::vector<kernel::AdamTensor> own(tensors, tensors + count);
    for (kernel::AdamTensor& one : own) one.copy = nullptr;
    return kernel::AdamKernels::by_definition().update(rule, own.data(), count, stream);
  }};
  const kernel::AdamKernels& right = kernel::AdamKernels::by_definition();
  EXPECT_NE(losses(writes_none, "auto"), losses(right, "auto"));
  EXPECT_EQ(losses(writes_none, "operations"), losses(right, "operations"));
}

TEST(Bf16, UnitsAreThoseThatTheSystemLists) {
  std::ifstream in("/proc/cpuinfo");
  std::string text;
  for (std::string line; std::getline(in, line) && text.empty();) {
    if (line.starts_with("flags")) text = line + ' ';
  }
  if (text.empty()) GTEST_SKIP() << "/proc/cpuinfo lists no flags";
  const bool has_units = text.find(" avx512_bf16 ") != std::string::npos ||
                         text.find(" amx_bf16 ") != std::string::npos;
  EXPECT_EQ(tensor::has_bf16_units(), has_units);
}

}  // namespace
}  // namespace mneme::train
