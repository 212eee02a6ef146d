#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>
#include <stdexcept>
#include <string>

#include "host/base/text.hpp"

namespace mneme {
namespace {

TEST(Table, AlignsColumns) {
  Table table({"", "none", "xl"});
  table.add_row({"loss", "3.1416", "2.7"});
  table.add_row({"accuracy", "0.5"});
  EXPECT_EQ(table.text(),
            "            none   xl\n"
            "loss      3.1416  2.7\n"
            "accuracy     0.5\n");
}

TEST(Table, CountsCharactersNotBytes) {
  Table table({"name", "value"});
  table.add_row({"\xC3\xA4\xC3\xB6", "1"});
  table.add_row({"abc", "\xC2\xB1"});
  EXPECT_EQ(table.text(), "name  value\n\xC3\xA4\xC3\xB6        1\nabc       \xC2\xB1\n");
}

TEST(Table, AnEmptyRowIsAnEmptyLine) {
  Table table({"a"});
  table.add_row({"x"});
  table.add_row({});
  table.add_row({"y"});
  EXPECT_EQ(table.text(), "a\nx\n\ny\n");
}

std::size_t longest_line(const std::string& text) {
  std::size_t longest = 0;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) longest = std::max(longest, line.size());
  return longest;
}

// A comparison of five memories: 145 columns as it is.
Table five_memories() {
  Table table({"", "none", "xl_cache", "compressive", "continuous_ltm", "lamemo",
               "xl_cache against none", "compressive against none", "continuous_ltm against none",
               "lamemo against none"});
  table.add_row({"accuracy, source outside the segment", "0.0285", "0.9246", "0.9", "0.8", "0.7",
                 "+0.8961", "+0.8715", "+0.7715", "+0.6715"});
  table.add_row({"state bytes a lane", "0", "12336"});
  return table;
}

TEST(Table, BreaksHeadingsAndFirstCells) {
  Table table({"", "none", "xl_cache", "xl_cache against none"});
  table.add_row({"accuracy, source outside the segment", "0.0285", "0.9246", "+0.8961"});
  EXPECT_EQ(table.text(48),
            "                                        xl_cache\n"
            "                                         against\n"
            "                        none  xl_cache      none\n"
            "accuracy, source      0.0285    0.9246   +0.8961\n"
            "  outside the\n"
            "  segment\n");
}

TEST(Table, PutsColumnsThatDoNotFitBelow) {
  const std::string text = five_memories().text(80);
  EXPECT_EQ(text,
            "                             none  xl_cache  compressive  continuous_ltm  lamemo\n"
            "accuracy, source outside   0.0285    0.9246          0.9             0.8     0.7\n"
            "  the segment\n"
            "state bytes a lane              0     12336\n"
            "\n"
            "                                  xl_cache  compressive                   lamemo\n"
            "                                   against      against  continuous_ltm  against\n"
            "                                      none         none    against none     none\n"
            "accuracy, source outside the       +0.8961      +0.8715         +0.7715  +0.6715\n"
            "  segment\n");
}

TEST(Table, FitsAnyWidth) {
  Table named({"memory", "loss"});
  named.add_row({"a_memory_file_with_a_name_that_nobody_would_want_to_type_a_second_time", "2.5"});
  for (std::size_t width = 40; width <= 200; ++width) {
    EXPECT_LE(longest_line(five_memories().text(width)), width);
    EXPECT_LE(longest_line(named.text(width)), width);
  }
}

TEST(Table, AWideTerminalChangesNothing) {
  EXPECT_EQ(five_memories().text(200), five_memories().text());
}

TEST(Table, RefusesALongRow) {
  Table table({"a"});
  EXPECT_THROW(table.add_row({"x", "y"}), std::logic_error);
}

}  // namespace
}  // namespace mneme
