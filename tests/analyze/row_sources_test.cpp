#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "host/analyze/measures/regression.hpp"
#include "host/tensor/torch.hpp"
#include "tests/base/temporary_folder.hpp"

namespace mneme::analyze {
namespace {

using ::mneme::test::error_of;
using ::testing::HasSubstr;

double mean_of(const at::Tensor& x) { return x.mean().item<double>(); }

// 64,000 numbers: standard errors are about .004, and .013 where neighbours are correlated.
TEST(RowSource, HasTheVarianceAndTheCorrelationThatItSays) {
  const at::Tensor white = autoregressive(64, 0.0, 1)(1000);
  EXPECT_EQ(white.sizes(), (std::vector<std::int64_t>{1000, 64}));
  EXPECT_NEAR(mean_of(white.square()), 1.0, 0.03);
  EXPECT_NEAR(mean_of(white.narrow(0, 1, 999) * white.narrow(0, 0, 999)), 0.0, 0.02);
  const RowSource smooth = autoregressive(64, 0.95, 1);
  const at::Tensor rows = at::cat({smooth(400), smooth(600)});
  EXPECT_NEAR(mean_of(rows.square()), 1.0, 0.08);
  EXPECT_NEAR(mean_of(rows.narrow(0, 1, 999) * rows.narrow(0, 0, 999)) / mean_of(rows.square()),
              0.95, 0.01);
}

TEST(RowSource, RepeatsWithItsSeedHoweverItIsCut) {
  const RowSource once = autoregressive(3, 0.5, 7), twice = autoregressive(3, 0.5, 7);
  const at::Tensor whole = once(10);
  EXPECT_TRUE(at::equal(whole, at::cat({twice(4), twice(6)})));
  EXPECT_FALSE(at::equal(whole, autoregressive(3, 0.5, 8)(10)));
}

TEST(RowSource, GivesGivenRowsInTheirOrder) {
  const RowSource rows = given_rows(torch::arange(6).view({3, 2}));
  EXPECT_TRUE(at::equal(rows(2), torch::tensor({0.0, 1.0, 2.0, 3.0}, at::kDouble).view({2, 2})));
  EXPECT_THAT(error_of([&] { return rows(2); }),
              HasSubstr("2: given rows: there are too few: expected at least 4, got 3"));
}

TEST(RowSource, RefusesACoefficientThatGrows) {
  EXPECT_THAT(error_of([] { return autoregressive(1, 1.0, 1); }),
              HasSubstr("expected a coefficient between -1 and 1, got 1.0"));
}

}  // namespace
}  // namespace mneme::analyze
