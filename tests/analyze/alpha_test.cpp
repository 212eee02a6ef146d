#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "host/analyze/measures/attention.hpp"
#include "host/base/error.hpp"
#include "host/tensor/torch.hpp"
#include "tests/base/temporary_folder.hpp"

namespace mneme::analyze {
namespace {

using ::testing::HasSubstr;

const std::string kKey = "0.org.x.y.2.memory.alpha";

std::string error_of(const at::Tensor& alpha) {
  return test::error_of([&] { AlphaByPlace().add({{kKey, alpha}}); });
}

TEST(Alpha, MeansOfFullMemories) {
  AlphaByPlace analysis;
  EXPECT_TRUE(analysis.is_empty());
  // A memory that is still filling, two lanes of a full one, one of which lacks a row.
  analysis.add({{kKey, torch::full({2, 1, 2}, 0.9)}});
  analysis.add({{kKey, torch::tensor({0.1, 0.3, 0.5, 0.7}).view({1, 2, 2})}});
  analysis.add({{kKey, torch::tensor({1.0, 0.6, 0.0, 0.2, 0.5, 0.5, std::nan(""), 0.5}, at::kDouble)
                           .view({2, 2, 2})}});
  analysis.add({{kKey, torch::full({1, 1, 2}, 0.9)}});
  analysis.add(
      {{"0.org.x.y.model.memory.alpha", torch::ones({1, 1, 1})}, {"other", torch::ones({1})}});
  const auto layers = analysis.layers();
  ASSERT_EQ(layers.size(), 1U);
  const auto& [where, layer] = *layers.begin();
  EXPECT_EQ(where.tier, "0.org.x.y");
  EXPECT_EQ(where.layer, 2);
  EXPECT_EQ(layer.segments, 2);
  ASSERT_EQ(layer.alpha.size(), 2U);
  EXPECT_NEAR(layer.alpha[0], (0.2 + 0.8) / 2.0, 1e-7);
  EXPECT_NEAR(layer.alpha[1], (0.6 + 0.1) / 2.0, 1e-7);
}

TEST(Alpha, AnEmptyMemoryShowsNothing) {
  AlphaByPlace analysis;
  analysis.add({{kKey, torch::empty({1, 0, 2})}});
  EXPECT_TRUE(analysis.layers().empty());
}

TEST(Alpha, RefusesWhatIsNoWeight) {
  EXPECT_THAT(
      error_of(torch::ones({2, 2})),
      HasSubstr("tier 0.org.x.y, layer 2, probe memory.alpha: has the wrong shape: expected "
                "[lanes, rows, heads], got [2, 2]"));
  EXPECT_THAT(error_of(torch::full({1, 1, 1}, 1.5)),
              HasSubstr("is no weight: expected numbers in [0, 1], got 1.5"));
}

}  // namespace
}  // namespace mneme::analyze
