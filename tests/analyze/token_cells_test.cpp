#include "host/analyze/measures/token_cells.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/base/temporary_folder.hpp"

namespace mneme::analyze {
namespace {

using ::mneme::test::error_of;
using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

constexpr double kTolerance = 1e-15;

auto near(double x) { return DoubleNear(x, kTolerance); }

TEST(TokenCells, FirstRowsHaveTheCellsAroundThem) {
  TokenCells space;
  EXPECT_TRUE(space.is_empty());
  space.begin(std::vector<double>{0.1, 0.3, 0.9}, 7);
  EXPECT_THAT(space.tokens(), ElementsAre(7, 8, 9));
  EXPECT_THAT(space.edges(), ElementsAre(0.0, near(0.2), near(0.6), 1.0));
  EXPECT_THAT(space.shares(),
              ElementsAre(Pair(7, near(0.2)), Pair(8, near(0.4)), Pair(9, near(0.4))));
}

// Two rows at .25 and .75, then samples at 1/2 and 1 that go to .25 and .5, and two rows at .75, 1.
// The sample at 1/2 lies on the edge of the old cells and belongs to the right one, token 1; the
// one at 1 to token 1 as well. So token 0 is gone, and token 1 has two cells.
TEST(TokenCells, AnUpdateGivesCellsToTheTokensThatWereSampled) {
  TokenCells space;
  space.begin(std::vector<double>{0.25, 0.75}, 0);
  space.update(even_samples(2), std::vector<double>{0.25, 0.5, 0.75, 1.0}, 2);
  EXPECT_THAT(space.tokens(), ElementsAre(1, 1, 2, 3));
  EXPECT_THAT(space.edges(), ElementsAre(0.0, 0.375, 0.625, 0.875, 1.0));
  EXPECT_THAT(space.shares(), ElementsAre(Pair(1, 0.625), Pair(2, 0.25), Pair(3, 0.125)));
}

TEST(TokenCells, SamplesOfOneRegionCrowdOutTheRest) {
  TokenCells space;
  space.begin(std::vector<double>{0.1, 0.5, 0.9}, 0);
  space.update(std::vector<double>{0.0, 0.05, 0.29, 0.8}, std::vector<double>{0.2, 0.4, 0.6, 0.8},
               3);
  EXPECT_THAT(space.tokens(), ElementsAre(0, 0, 0, 2));
  EXPECT_THAT(space.shares(), ElementsAre(Pair(0, near(0.7)), Pair(2, near(0.3))));
}

TEST(TokenCells, PointsMayComeInAnyOrder) {
  TokenCells space;
  space.begin(std::vector<double>{0.75, 0.25}, 0);
  EXPECT_THAT(space.tokens(), ElementsAre(1, 0));
  EXPECT_EQ(space.token_at(0.0), 1);
  EXPECT_EQ(space.token_at(0.5), 0);
  EXPECT_EQ(space.token_at(1.0), 0);
  space.clear();
  EXPECT_TRUE(space.is_empty());
  EXPECT_TRUE(space.shares().empty());
}

TEST(TokenCells, RefusesPlacesThatAreNone) {
  TokenCells space;
  const std::vector<double> one = {0.5};
  EXPECT_THAT(error_of([&] { space.begin(std::vector<double>{1.5}, 0); }),
              HasSubstr("1: the memory's places: a place is outside of the memory"));
  EXPECT_THAT(error_of([&] { space.update(one, one, 0); }),
              HasSubstr("an empty memory was sampled 1 times"));
  space.begin(one, 0);
  EXPECT_THAT(error_of([&] { space.update(one, {}, 1); }),
              HasSubstr("fewer than samples of the old memory: expected at least 1, got 0"));
  EXPECT_THAT(error_of([&] { space.update(std::vector<double>{-0.1}, one, 1); }),
              HasSubstr("the memory's samples: a place is outside"));
}

TEST(EvenSamples, EndAtOne) { EXPECT_THAT(even_samples(4), ElementsAre(0.25, 0.5, 0.75, 1.0)); }

}  // namespace
}  // namespace mneme::analyze
