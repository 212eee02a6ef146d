#include <gtest/gtest.h>

#include <vector>

#include "host/generate/text.hpp"

namespace mneme::generate {
namespace {

// What is shown of pieces, the rest included; each piece's part ends in "|".
std::string shown(const std::string& stop, const std::vector<std::string>& pieces) {
  StopText text(stop);
  std::string out;
  for (const std::string& piece : pieces) out += text.add(piece) + "|";
  return out + text.rest() + (text.is_found() ? " found" : "");
}

TEST(StopText, HoldsBackWhatMayBeItsBeginning) {
  EXPECT_EQ(shown("END", {"a", "bE", "Nd", "E", "ND", "more"}), "a|b|ENd|||| found");
  EXPECT_EQ(shown("END", {"aENDb"}), "a| found");
  EXPECT_EQ(shown("aab", {"aaab"}), "a| found");
  EXPECT_EQ(shown("\n\n", {"x\n", "y\n", "\n"}), "x|\ny|| found");
}

TEST(StopText, GivesTheRestWhenItNeverAppears) {
  EXPECT_EQ(shown("END", {"xE", "N"}), "x||EN");
  EXPECT_EQ(shown("", {"ab", "c"}), "ab|c|");
}

}  // namespace
}  // namespace mneme::generate
