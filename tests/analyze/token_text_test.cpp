#include <gtest/gtest.h>

#include "host/analyze/memory_analyses.hpp"
#include "tests/base/temporary_folder.hpp"

namespace mneme::analyze {
namespace {

TEST(Printable, ShowsWhatALineCannotHold) {
  EXPECT_EQ(printable("plain"), "plain");
  EXPECT_EQ(printable("\xC3\xA9\xE2\x82\xAC"), "\xC3\xA9\xE2\x82\xAC");
  EXPECT_EQ(printable("a\nb\tc\x01"), "a\\nb\\tc\\x01");
  EXPECT_EQ(printable("\xC3"), "\\xc3");
  EXPECT_EQ(printable("x\xFFy"), "x\\xffy");
  EXPECT_EQ(printable("\xC2\x85"), "\\xc2\\x85");  // NEL, a control character
  EXPECT_EQ(printable(""), "");
}

TEST(TokenText, NamesSymbolsOrIds) {
  const data::Vocabulary bytes = data::Vocabulary::bytes();
  EXPECT_EQ(TokenText(&bytes).of('a'), "a");
  EXPECT_EQ(TokenText(&bytes).of('\n'), "\\n");
  EXPECT_EQ(TokenText(&bytes).of(200), "\\xc8");
  EXPECT_EQ(TokenText(nullptr).of(7), "7");
  EXPECT_NE(test::error_of([&] { return TokenText(&bytes).of(256); }), "no error");
}

}  // namespace
}  // namespace mneme::analyze
