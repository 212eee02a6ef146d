#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "host/base/text.hpp"

namespace mneme {
namespace {

using ::testing::ElementsAre;

TEST(Wrap, BreaksAtBlanks) {
  EXPECT_THAT(wrap_text("state bytes a lane", 11), ElementsAre("state bytes", "a lane"));
  EXPECT_THAT(wrap_text("one", 10), ElementsAre("one"));
  EXPECT_THAT(wrap_text("", 10), ElementsAre(""));
}

TEST(Wrap, IndentsTheLinesAfterTheFirst) {
  EXPECT_THAT(wrap_text("accuracy, source outside the segment", 18, 2),
              ElementsAre("accuracy, source", "  outside the", "  segment"));
}

TEST(Wrap, BreaksNamesThatAreLongerThanALineAtTheirJoints) {
  EXPECT_THAT(wrap_text("of continuous_ltm", 14), ElementsAre("of", "continuous_ltm"));
  EXPECT_THAT(wrap_text("continuous_ltm", 12), ElementsAre("continuous_", "ltm"));
  EXPECT_THAT(wrap_text("bits/character", 10), ElementsAre("bits/", "character"));
  EXPECT_THAT(wrap_text("org.mneme.xl_cache@0.1.0", 16),
              ElementsAre("org.mneme.xl_", "cache@0.1.0"));
  EXPECT_EQ(longest_word("continuous_ltm against none"), 14U);
}

TEST(Wrap, LeavesNumbersWhole) {
  EXPECT_THAT(wrap_text("-0.5000 1/2", 7), ElementsAre("-0.5000", "1/2"));
}

TEST(Wrap, ShortensAtTheEnd) {
  EXPECT_EQ(shortened("continuous", 10), "continuous");
  EXPECT_EQ(shortened("continuous", 6), "cont..");
  EXPECT_EQ(shortened("\xC3\xA4\xC3\xB6\xC3\xBC", 2), "..");
}

TEST(Wrap, CutsWhatIsLongerThanALine) {
  EXPECT_THAT(wrap_text("abcdefgh ij", 3), ElementsAre("abc", "def", "gh", "ij"));
  EXPECT_THAT(wrap_text("\xC3\xA4\xC3\xB6\xC3\xBC", 2),
              ElementsAre("\xC3\xA4\xC3\xB6", "\xC3\xBC"));
}

}  // namespace
}  // namespace mneme
