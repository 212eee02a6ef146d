#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "host/cli/eval/eval.hpp"

namespace mneme::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::size_t kColumns = 80;

run::SweepResult memory_of(const std::string& name, const std::string& version,
                           const std::string& sha256) {
  run::SweepResult result;
  result.name = name;
  memory::TierIdentity& plugin = result.plugins.emplace_back();
  plugin.id = "org.example.cache";
  plugin.version = version;
  plugin.sha256 = sha256;
  return result;
}

TEST(ResultTable, TellsBuildsOfOnePluginApart) {
  const std::string text = result_table({memory_of("old", "1.0.0", "abcdef0123456789"),
                                         memory_of("new", "1.0.0", "0123456789abcdef"),
                                         {.name = "none", .memory = {}}},
                                        kColumns);
  EXPECT_THAT(text, HasSubstr("several builds of one plugin:\n"
                              "  old: org.example.cache@1.0.0 [abcdef01]\n"
                              "  new: org.example.cache@1.0.0 [01234567]\n"));
  EXPECT_THAT(text, Not(HasSubstr("  none: ")));
}

TEST(ResultTable, NamesVersionsWhereTheyDiffer) {
  const std::string text =
      result_table({memory_of("old", "1.0.0", "ab"), memory_of("new", "1.1.0", "cd")}, kColumns);
  EXPECT_THAT(text, HasSubstr("  old: org.example.cache@1.0.0\n  new: org.example.cache@1.1.0\n"));
}

TEST(ResultTable, SaysNothingOfOneBuild) {
  const std::string text =
      result_table({memory_of("short", "1.0.0", "ab"), memory_of("long", "1.0.0", "ab")}, kColumns);
  EXPECT_THAT(text, Not(HasSubstr("org.example.cache")));
}

}  // namespace
}  // namespace mneme::cli
