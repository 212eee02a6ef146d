#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "host/tensor/dense_product.hpp"

namespace mneme::train {
namespace {

using config::Precision;

TEST(Bf16, IsWarnedOfOnProcessorsWithoutIt) {
  EXPECT_THAT(tensor::slow_bf16_text(Precision::kBf16, c10::kCPU, false),
              testing::AllOf(testing::HasSubstr("no instructions for it"),
                             testing::HasSubstr("--set train.precision=f32")));
  EXPECT_EQ(tensor::slow_bf16_text(Precision::kBf16, c10::kCPU, true), "");
  EXPECT_EQ(tensor::slow_bf16_text(Precision::kF32, c10::kCPU, false), "");
  EXPECT_EQ(tensor::slow_bf16_text(Precision::kBf16, c10::kCUDA, false), "");
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
