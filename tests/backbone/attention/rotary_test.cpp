// Frequencies of rotary positions. Golden files of decoders hold the usual kinds; these are values
// of the formula in PyPI transformers 5.24, computed in f64, where truncate matters.
#include "host/backbone/attention/rotary.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mneme::backbone {
namespace {

using config::RotaryConfig;
using config::RotaryScaling;
using ::testing::DoubleEq;
using ::testing::ElementsAre;

TEST(Rotary, YarnRoundsThePairsOfItsRampUnlessItIsToldNotTo) {
  RotaryConfig yarn{
      .base = 100.0, .scaling = RotaryScaling::kYarn, .factor = 8.0, .original_positions = 200};
  EXPECT_THAT(rotary_frequencies(yarn, 8),
              ElementsAre(DoubleEq(1.0), DoubleEq(0.24705294220065463), DoubleEq(0.05625),
                          DoubleEq(0.010870329456828804)));
  yarn.truncate = false;
  EXPECT_THAT(rotary_frequencies(yarn, 8),
              ElementsAre(DoubleEq(1.0), DoubleEq(0.2241695859504173), DoubleEq(0.04177729474804),
                          DoubleEq(0.004005322581757598)));
}

TEST(Rotary, TheDynamicKindIsPlainWithinItsContext) {
  const RotaryConfig dynamic{
      .base = 100.0, .scaling = RotaryScaling::kDynamic, .factor = 4.0, .original_positions = 200};
  EXPECT_EQ(rotary_frequencies(dynamic, 8), rotary_frequencies({.base = 100.0}, 8));
  EXPECT_EQ(rotary_factor(dynamic), 1.0);
}

}  // namespace
}  // namespace mneme::backbone
