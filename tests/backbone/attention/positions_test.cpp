#include "host/backbone/attention/positions.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "host/tensor/torch.hpp"
#include "tests/backbone/naive.hpp"
#include "tests/backbone/support.hpp"

namespace mneme::backbone {
namespace {

const at::TensorOptions kDouble = at::TensorOptions().dtype(at::kDouble);

TEST(Positions, SinesComeBeforeCosines) {
  const at::Tensor r = sinusoids(at::tensor({0, 3}, at::kLong), 6, kDouble);
  for (int64_t k = 0; k < 3; ++k) {
    const double angle = 3.0 * std::pow(10000.0, -2.0 * static_cast<double>(k) / 6.0);
    EXPECT_NEAR(r[1][k].item<double>(), std::sin(angle), 1e-15);
    EXPECT_NEAR(r[1][3 + k].item<double>(), std::cos(angle), 1e-15);
  }
}

TEST(Positions, LargeDistancesAreExactInF32) {
  // The angle itself does not fit f32; the table is computed in f64 and cast.
  const at::Tensor low =
      sinusoids(at::tensor({16777217}, at::kLong), 4, at::TensorOptions().dtype(at::kFloat));
  EXPECT_NEAR(low[0][0].item<float>(), std::sin(16777217.0), 1e-6);
}

TEST(Positions, SlopesAreThoseOfThePaper) {
  EXPECT_EQ(alibi_slopes(1), std::vector<double>({1.0 / 256}));
  EXPECT_EQ(alibi_slopes(8), std::vector<double>({0.5, 0.25, 0.125, 0.0625, 0.03125, 0.015625,
                                                  0.0078125, 0.00390625}));
  // 6 heads: those of 4, then every second one of 8.
  const std::vector<double> six = alibi_slopes(6);
  EXPECT_EQ(six, std::vector<double>({0.25, 0.0625, 0.015625, 0.00390625, 0.5, 0.125}));
  EXPECT_EQ(alibi_slopes(12).size(), 12u);
}

TEST(Positions, TableRunsDownToDistanceZeroAndClamps) {
  Noise noise(1);
  PositionTables tables(6, 2, kDouble, &noise);
  tables.begin_segment(0.0);
  const at::Tensor longer = tables.descending(5), shorter = tables.descending(2);
  EXPECT_EQ(longer.size(0), 6);
  EXPECT_EQ(largest_difference(longer[0], sinusoids(at::tensor({2}, at::kLong), 6, kDouble)[0]),
            0.0);
  EXPECT_EQ(largest_difference(longer[4], sinusoids(at::tensor({0}, at::kLong), 6, kDouble)[0]),
            0.0);
  EXPECT_EQ(largest_difference(shorter, longer.narrow(0, 3, 3)), 0.0);
}

TEST(Positions, DropoutMaskIsSharedByTheLayersOfASegment) {
  Noise noise(1);
  noise.next_segment();
  PositionTables tables(8, 0, kDouble, &noise);
  tables.begin_segment(0.5);
  const at::Tensor first = tables.descending(4).clone();
  const at::Tensor longer = tables.descending(7).clone();
  EXPECT_EQ(largest_difference(longer.narrow(0, 3, 5), first), 0.0);
  EXPECT_GT(first.eq(0.0).sum().item<int64_t>(), 4);
  tables.begin_segment(0.5);
  EXPECT_GT(largest_difference(tables.descending(7), longer), 0.1);
}

TEST(Positions, MaskCountsFreePlacedAndWindow) {
  MaskCache masks;
  const at::Tensor mask = masks.causal({1, 2, 3}, 3, {}, 0, kDouble)[0][0];
  const double inf = std::numeric_limits<double>::infinity();
  for (int64_t i = 0; i < 3; ++i) {
    EXPECT_EQ(mask[i][0].item<double>(), 0.0);
    for (int64_t j = 0; j < 5; ++j) {
      const int64_t distance = i - (j - 2);
      EXPECT_EQ(mask[i][1 + j].item<double>(), distance >= 0 && distance < 3 ? 0.0 : -inf)
          << i << " " << j;
    }
  }
  EXPECT_TRUE(masks.causal({1, 2, 3}, 3, {}, 0, kDouble)
                  .is_same(masks.causal({1, 2, 3}, 3, {}, 0, kDouble)));
  EXPECT_NE(masks.causal({1, 2, 3}, 0, {}, 0, kDouble)[0][0][2][1].item<double>(), -inf);
}

TEST(Positions, MasksMayBeThrownAwayAndMadeAgain) {
  MaskCache masks;
  const at::Tensor before = masks.causal({0, 2, 3}, 0, {}, 0, kDouble);
  for (int64_t placed = 0; placed < 200; ++placed) masks.causal({0, placed, 1}, 0, {}, 0, kDouble);
  EXPECT_EQ(largest_difference(masks.causal({0, 2, 3}, 0, {}, 0, kDouble), before), 0.0);
}

TEST(Positions, ExplicitScoresAreThoseOfTheSummedDistance) {
  const int64_t heads = 2, lanes = 2, length = 3, d = 5, width = 8;
  const at::Tensor query = random_tensor(1, {heads, lanes, length, d});
  const at::Tensor weight = random_tensor(2, {heads * d, width});
  const at::Tensor zero = at::zeros({heads, d}, at::kDouble);
  const at::Tensor q = query.permute({1, 2, 0, 3}).contiguous();
  for (const int64_t clamp : {0, 7}) {
    Noise noise(1);
    PositionTables tables(width, clamp, kDouble, &noise);
    tables.begin_segment(0.0);
    for (const at::Tensor& distance : {at::tensor({0, 4, 1000, 7, 6, 5}, at::kLong).view({2, 3}),
                                       at::tensor({2, 31}, at::kLong).view({1, 2})}) {
      const at::Tensor scores = explicit_scores(query, weight, distance, tables);
      for (int64_t h = 0; h < heads; ++h)
        for (int64_t b = 0; b < lanes; ++b)
          for (int64_t i = 0; i < length; ++i)
            for (int64_t m = 0; m < distance.size(1); ++m) {
              int64_t far = distance[distance.size(0) == 1 ? 0 : b][m].item<int64_t>() + i;
              if (clamp > 0) far = std::min(far, clamp);
              EXPECT_NEAR(scores[h][b][i][m].item<double>(),
                          naive::position_dot(q, weight, zero, h, b, i, far, width), 1e-10);
            }
    }
  }
}

}  // namespace
}  // namespace mneme::backbone
