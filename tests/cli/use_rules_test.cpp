#include "host/cli/use_rules.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "host/base/error.hpp"

namespace mneme::cli {
namespace {

const std::vector<UseRule> kRules = read_rules(R"(
--watch refuses --locked, --dump -: loads every build
--count, --seconds needs --watch, several FILE
--part needs --whole: use --set part=N
folders allows EXP, --quiet: are read as they are
)");

// "" when nothing is refused.
std::string refusal(const std::set<std::string>& given) {
  try {
    check_use("eval", kRules, given);
    return "";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    return error.what();
  }
}

TEST(UseRules, TakeWhatTheyDoNotName) {
  EXPECT_EQ(refusal({}), "");
  EXPECT_EQ(refusal({"--locked", "--dump -", "--other"}), "");
  EXPECT_EQ(refusal({"--watch", "--count", "--other"}), "");
  EXPECT_EQ(refusal({"several FILE", "--seconds"}), "");
  EXPECT_EQ(refusal({"folders", "EXP", "--quiet", "--quiet true"}), "");
}

TEST(UseRules, SayWhatToLeaveOutOrToAdd) {
  EXPECT_EQ(refusal({"--watch", "--locked"}), "eval --watch loads every build; leave --locked out");
  EXPECT_EQ(refusal({"--watch", "--locked", "--dump -", "--other"}),
            "eval --watch loads every build; leave --dump - and --locked out");
  EXPECT_EQ(refusal({"--count"}),
            "eval --count goes with --watch or several FILE; add that, or leave --count out");
  EXPECT_EQ(refusal({"--part"}), "eval --part goes with --whole; use --set part=N");
  EXPECT_EQ(refusal({"folders", "EXP", "--locked"}),
            "eval: folders are read as they are; leave --locked out");
}

TEST(UseRules, AreAPartOfTheHelp) {
  EXPECT_EQ(help_with_rules("--watch", "Evaluate again", kRules),
            "Evaluate again; not with --locked, --dump -");
  EXPECT_EQ(help_with_rules("--seconds", "Time of one", kRules),
            "With --watch or several FILE: time of one");
  EXPECT_EQ(help_with_rules("--other", "Another", kRules), "Another");
}

}  // namespace
}  // namespace mneme::cli
