#include "host/compare/table.hpp"

#include <gtest/gtest.h>

#include <stdexcept>

namespace mneme::compare {
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

TEST(Table, AddsGaps) {
  Table table({"a"});
  table.add_row({"x"});
  table.add_gap();
  table.add_row({"y"});
  EXPECT_EQ(table.text(), "a\nx\n\ny\n");
}

TEST(Table, RefusesALongRow) {
  Table table({"a"});
  EXPECT_THROW(table.add_row({"x", "y"}), std::logic_error);
}

}  // namespace
}  // namespace mneme::compare
