#include <gtest/gtest.h>

#include "host/analyze/memory_analyses.hpp"
#include "tests/base/temporary_folder.hpp"

namespace mneme::analyze {
namespace {

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
