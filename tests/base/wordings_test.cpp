#include "tests/base/wordings.hpp"

#include <gtest/gtest-spi.h>

#include "host/base/error.hpp"

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
  EXPECT_EQ(rows[1].name(), "table:7: a call with more words");
  EXPECT_EQ(parts_of("one & two words & 3"), (std::vector<std::string>{"one", "two words", "3"}));
}

std::string refusal(const std::string& table) {
  try {
    static_cast<void>(read_wordings(table, "m.txt"));
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "read";
}

TEST(Wordings, TablesThatExpectNothingAreRefused) {
  EXPECT_EQ(refusal(""), "m.txt: a table without a row");
  EXPECT_EQ(refusal("# nothing\n\n"), "m.txt: a table without a row");
  EXPECT_EQ(refusal("a => b\nalone\n"), "m.txt:2: alone: a row without a message");
  EXPECT_EQ(refusal("a => \n"), "m.txt:1: no message behind =>");
  EXPECT_EQ(refusal("a\n  => b\n  =>\n"), "m.txt:3: no message behind =>");
  EXPECT_EQ(refusal("  => b\n"), "m.txt:1: expected a row, got   => b");
  EXPECT_THROW(parts_of("one & "), std::runtime_error);
  EXPECT_THROW(read_wording_file("tests/base/messages/none.txt"), Error);
}

TEST(Wordings, OtherMessagesFail) {
  const auto message_of = [](const std::string& text) { return "2: f:1:1: " + text.substr(0, 1); };
  const auto expect = [&](const std::string& table) {
    expect_problems(message_of, "f", read_wordings(table, "m.txt"));
  };
  expect("a => 1:1: a\n");
  EXPECT_NONFATAL_FAILURE(expect("# first\na => 1:1: b\n"), "case: m.txt:2: a");
  EXPECT_NONFATAL_FAILURE(expect("a => 1:1: b\n"), "2: f:1:1: b");
  EXPECT_NONFATAL_FAILURE(expect("a => 1:1: b\n"), "2: f:1:1: a");
  EXPECT_NONFATAL_FAILURE(expect("a => no error\n"), "case: m.txt:1: a");
}

}  // namespace
}  // namespace mneme::test
