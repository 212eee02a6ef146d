#include "host/analyze/measures/attention.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/analyze/views.hpp"
#include "tests/base/temporary_folder.hpp"

namespace mneme::analyze {
namespace {

using ::mneme::test::error_of;
using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

// Phi(1) = .841344746..., Phi(2) = .977249868...
TEST(Density, MassIsThatOfTheNormalDistribution) {
  const Density density{.mean = 0.5, .deviation = 0.25};
  EXPECT_NEAR(density.below(0.5), 0.5, 1e-16);
  EXPECT_NEAR(density.below(0.75), 0.841344746068543, 1e-14);
  EXPECT_NEAR(density.below(0.0), 1.0 - 0.977249868051821, 1e-14);
  const std::vector<Density> both = {density, narrow(0.3)};
  EXPECT_THAT(
      masses_between(both, std::vector<double>{0.0, 0.5, 0.75, 1.0}),
      ElementsAre(DoubleNear(0.477249868051821 + 1.0, 1e-14), DoubleNear(0.341344746068543, 1e-14),
                  DoubleNear(0.135905121983278, 1e-14)));
  EXPECT_TRUE(masses_between(both, {}).empty());
}

TEST(Density, EvenEdgesEndAtOne) { EXPECT_THAT(even_edges(4), ElementsAre(0, 0.25, 0.5, 0.75, 1)); }

// Head 0: queries at .1 (bin 0), .3, .35 (bin 1), then one at .9 (bin 3). Head 1: half of the mass
// of a query at 1 lies outside.
TEST(AttentionHistogram, AveragesOverQueries) {
  AttentionHistogram histogram(4);
  const TokenCells none;
  histogram.add(reading(none, {{narrow(0.1), narrow(0.3), narrow(0.35)}, {narrow(1.0)}}));
  histogram.add(reading(none, {{narrow(0.9)}, {narrow(0.6)}}));
  const auto heads = histogram.heads();
  ASSERT_EQ(heads.size(), 2U);
  const AttentionHistogram::Head& first = heads.at({kPlace, 0});
  const AttentionHistogram::Head& second = heads.at({kPlace, 1});
  const auto near = [](double x) { return DoubleNear(x, 1e-12); };
  EXPECT_THAT(first.mass, ElementsAre(near(0.25), near(0.5), near(0.0), near(0.25)));
  EXPECT_THAT(second.mass, ElementsAre(near(0.0), near(0.0), near(0.5), near(0.25)));
  EXPECT_EQ(first.queries, 4);
  EXPECT_NEAR(first.mean_place, (0.1 + 0.3 + 0.35 + 0.9) / 4, 1e-15);
  EXPECT_NEAR(second.mean_deviation, 1e-3, 1e-15);
}

TEST(AttentionHistogram, RefusesNoBins) {
  EXPECT_THAT(error_of([] { AttentionHistogram histogram(0); }),
              HasSubstr("2: attention histogram: bins: expected at least 1, got 0"));
}

// Token 1 has two cells, [0, .375] and [.375, .625], token 2 [.625, .875], token 3 the rest.
TEST(TokenAttention, SumsTheMassOfAllCellsOfAToken) {
  TokenCells space;
  space.begin(std::vector<double>{0.25, 0.75}, 0);
  space.update(even_samples(2), std::vector<double>{0.25, 0.5, 0.75, 1.0}, 2);
  TokenAttention attention;
  attention.add(reading(space, {{narrow(0.1), narrow(0.5), narrow(0.7)}, {narrow(0.95)}}));
  attention.add(reading(TokenCells(), {{narrow(0.1)}, {narrow(0.1)}}));  // no map: left out
  const auto by_head = attention.by_head(2);
  const std::vector<AttendedToken>& top = by_head.at({kPlace, 0});
  ASSERT_EQ(top.size(), 2U);
  EXPECT_EQ(top[0].token, 1);
  EXPECT_NEAR(top[0].mass, 2.0, 1e-12);
  EXPECT_NEAR(top[0].share, 2.0 / 3.0, 1e-12);
  EXPECT_EQ(top[1].token, 2);
  EXPECT_NEAR(top[1].mass, 1.0, 1e-12);
  EXPECT_EQ(by_head.at({kPlace, 1}).front().token, 3);
  const std::vector<AttendedToken> overall = attention.overall(10);
  ASSERT_EQ(overall.size(), 3U);
  EXPECT_NEAR(overall[0].share, 0.5, 1e-12);
}

}  // namespace
}  // namespace mneme::analyze
