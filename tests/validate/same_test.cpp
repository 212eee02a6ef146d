// What `mneme plugins same` finds in a port of a memory.
#include "host/validate/same.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "host/base/log.hpp"

namespace mneme::validate {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

Subject port(const std::string& wrong) {
  return {.file = MNEME_FLAWED_PLUGINS "/test_port.so", .options = {"wrong=" + wrong}};
}

Sameness compared(const Subject& first, const Subject& second) {
  const LogListener silence([](LogLevel, std::string_view) { return false; });
  return compare_plugins(first, second, 1e-10);
}

TEST(Same, APortWithoutAMistakeIsTheSame) {
  for (const Subject& subject :
       {port("nothing"),
        Subject{.file = MNEME_FLAWED_PLUGINS "/test_flawed.so", .options = {"queue=true"}}}) {
    const Sameness found = compared(subject, subject);
    EXPECT_TRUE(found.is_same());
    EXPECT_THAT(found.declarations, IsEmpty());
    ASSERT_GE(found.kinds.size(), 3U);
    for (const SameKind& kind : found.kinds) {
      EXPECT_GT(kind.numbers, 100) << kind.kind;
      EXPECT_EQ(kind.absolute, 0.0) << kind.kind;
    }
  }
}

// The first segment reads an empty memory.
TEST(Same, AWrongSignShowsInTheLossesOfTheSecondSegment) {
  const Sameness found = compared(port("nothing"), port("sign"));
  ASSERT_THAT(found.first, SizeIs(1));
  EXPECT_EQ(found.first[0].what, "losses");
  EXPECT_EQ(found.first[0].segment, 1);
  EXPECT_GT(found.first[0].absolute, 1e-4);
}

TEST(Same, AWrongResetShowsInTheStateOfItsSegment) {
  const Sameness found = compared(port("nothing"), port("reset"));
  ASSERT_THAT(found.first, SizeIs(1));
  EXPECT_THAT(found.first[0].what, HasSubstr("mean"));
  EXPECT_EQ(found.first[0].segment, 2);
}

TEST(Same, AWrongTypeAndAnotherNameShowInTheDeclarations) {
  EXPECT_THAT(
      compared(port("nothing"), port("dtype")).declarations,
      ElementsAre(AllOf(HasSubstr("slot mean (evaluation): first f32"), HasSubstr("second bf16")),
                  HasSubstr("slot mean (training)")));
  const Sameness found = compared(port("nothing"), port("name"));
  EXPECT_FALSE(found.is_same());
  EXPECT_THAT(found.declarations, ElementsAre("parameter gate (evaluation): only the first has it",
                                              "parameter gate (training): only the first has it",
                                              "parameter door (evaluation): only the second has it",
                                              "parameter door (training): only the second has it"));
}

}  // namespace
}  // namespace mneme::validate
