#include "tests/base/wordings.hpp"

#include <gtest/gtest-spi.h>

namespace mneme::test {
namespace {

TEST(Wordings, AreReadFromText) {
  const std::vector<Wording> rows = read_wordings(R"(
# a comment
steps = 1; epochs = 1
  => expected one of steps and
     epochs
  => epochs has no end
a call with
  more words
  => short
(empty) => missing
)");
  ASSERT_EQ(rows.size(), 3U);
  EXPECT_EQ(rows[0].given, "steps = 1; epochs = 1");
  EXPECT_EQ(rows[0].message, "expected one of steps and epochs\nepochs has no end");
  EXPECT_EQ(lines_of(rows[0].given), "steps = 1\nepochs = 1\n");
  EXPECT_EQ(rows[1].given, "a call with more words");
  EXPECT_EQ(rows[1].message, "short");
  EXPECT_EQ(rows[2].given, "");
  EXPECT_EQ(parts_of("one & two words & 3"), (std::vector<std::string>{"one", "two words", "3"}));
  EXPECT_THROW(read_wordings("a row without a message\n"), std::runtime_error);
}

TEST(Wordings, OtherMessagesFail) {
  const auto message_of = [](const std::string& text) { return "2: f:1:1: " + text.substr(0, 1); };
  expect_problems(message_of, "f", "a => 1:1: a\n");
  EXPECT_NONFATAL_FAILURE(expect_problems(message_of, "f", "a => 1:1: b\n"), "case: a");
  EXPECT_NONFATAL_FAILURE(expect_problems(message_of, "f", "a => no error\n"), "case: a");
  EXPECT_NONFATAL_FAILURE(expect_problems(message_of, "f", "# nothing\n"), "without a row");
}

}  // namespace
}  // namespace mneme::test
