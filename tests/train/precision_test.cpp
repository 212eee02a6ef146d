#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <utility>

#include "host/run/run_folder.hpp"
#include "host/run/runtime.hpp"
#include "host/tensor/dense_product.hpp"
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
