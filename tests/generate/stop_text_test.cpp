#include <gtest/gtest.h>

#include <vector>

#include "host/generate/text.hpp"

namespace mneme::generate {
namespace {

// What is shown of pieces, the rest included; each piece's part ends in "|".
std::string shown(const std::vector<std::string>& stops, const std::vector<std::string>& pieces) {
  StopText text(stops);
  std::string out;
  for (const std::string& piece : pieces) out += text.add(piece) + "|";
  return out + text.rest() + (text.is_found() ? " found" : "");
}

TEST(StopText, HoldsBackWhatMayBeItsBeginning) {
  EXPECT_EQ(shown({"END"}, {"a", "bE", "Nd", "E", "ND", "more"}), "a|b|ENd|||| found");
  EXPECT_EQ(shown({"END"}, {"aENDb"}), "a| found");
  EXPECT_EQ(shown({"aab"}, {"aaab"}), "a| found");
  EXPECT_EQ(shown({"\n\n"}, {"x\n", "y\n", "\n"}), "x|\ny|| found");
}

TEST(StopText, GivesTheRestWhenItNeverAppears) {
  EXPECT_EQ(shown({"END"}, {"xE", "N"}), "x||EN");
  EXPECT_EQ(shown({""}, {"ab", "c"}), "ab|c|");
  EXPECT_EQ(shown({}, {"ab", "c"}), "ab|c|");
}

TEST(StopText, OfSeveralTheOneThatIsWholeFirstCounts) {
  EXPECT_EQ(shown({"END", "\n\n", ""}, {"a\n", "\nEND"}), "a|| found");
  EXPECT_EQ(shown({"END", "\n\n"}, {"aE", "ND\n\n"}), "a|| found");
  // In one piece as in several: the longer text, which begins first, is whole later.
  EXPECT_EQ(shown({"abcd", "bc"}, {"xabcd"}), "xa| found");
  EXPECT_EQ(shown({"abcd", "bc"}, {"x", "a", "b", "c", "d"}), "x|||a|| found");
  // Of those that end together the longest.
  EXPECT_EQ(shown({"bc", "abc"}, {"xabc"}), "x| found");
  EXPECT_EQ(shown({"abc", "bc"}, {"xa", "bc"}), "x|| found");
  // What one of them holds back is held back until none can go on.
  EXPECT_EQ(shown({"abcd", "cx"}, {"abc", "y"}), "|abcy|");
}

}  // namespace
}  // namespace mneme::generate
