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

TEST(QuestionsText, HasAGroupALineWithItsInterval) {
  run::SweepResult first{.name = "none", .memory = {}}, second{.name = "cache", .memory = {}};
  eval::QuestionScores& scores = first.result.emplace().questions.emplace();
  scores.all = {.questions = 10, .right = 8};
  scores.groups["length"] = {{"256", {.questions = 4, .right = 4}},
                             {"1024", {.questions = 6, .right = 4}}};
  second.result = first.result;
  second.result->questions->all.right = 0;
  EXPECT_EQ(questions_text({first, second}, kColumns),
            "\nright answers, with 95 % intervals over questions\n"
            "accuracy     questions                   none                  cache\n"
            "all                 10  0.8000 [0.490, 0.943]  0.0000 [0.000, 0.278]\n"
            "length 256           4  1.0000 [0.510, 1.000]  1.0000 [0.510, 1.000]\n"
            "length 1024          6  0.6667 [0.300, 0.903]  0.6667 [0.300, 0.903]\n");
  scores.has_choices = true;
  scores.all.guessed = 2.5;
  EXPECT_THAT(questions_text({first}, kColumns), HasSubstr("10  0.2500  0.8000 [0.490, 0.943]\n"));
  EXPECT_EQ(questions_text({memory_of("short", "1.0.0", "ab")}, kColumns), "");
}

// --- The line of a watch ---

run::SweepResult watched_result() {
  run::SweepResult result = memory_of("my_memory", "0.1.0", "c07d55e2abcdef01");
  eval::Result& numbers = result.result.emplace();
  numbers.total.targets = 1000;
  numbers.total.nll = 2395.8;
  numbers.total.correct = 335;
  numbers.seconds = 0.5;
  return result;
}

eval::Result previous_numbers() {
  eval::Result numbers = *watched_result().result;
  numbers.total.nll = 2417.1;
  numbers.total.correct = 331;
  return numbers;
}

TEST(WatchLine, IsOneLineWhereThereIsRoom) {
  const eval::Result previous = previous_numbers();
  const std::string line = watch_line("10:32:40", watched_result(), &previous, 0);
  EXPECT_EQ(line,
            "10:32:40  my_memory  loss 2.3958 (-0.0213)  perplexity 10.977 (-0.2363)  accuracy "
            "0.3350 (+0.0040)  2.00k tokens/s  0.5 s  org.example.cache@0.1.0 [c07d55e2]\n");
  EXPECT_EQ(watch_line("10:32:40", watched_result(), &previous, line.size() - 1), line);
}

TEST(WatchLine, FitsNarrowTerminalsInTwoLines) {
  const eval::Result previous = previous_numbers();
  EXPECT_EQ(watch_line("10:32:40", watched_result(), &previous, 120),
            "10:32:40  my_memory  loss 2.3958 (-0.0213)  perplexity 10.977 (-0.2363)  accuracy "
            "0.3350 (+0.0040)  2.00k tokens/s\n"
            "          0.5 s  org.example.cache@0.1.0 [c07d55e2]\n");
  EXPECT_EQ(watch_line("10:32:40", watched_result(), &previous, 80),
            "10:32:40  my_memory  loss 2.3958 (-0.0213)  perplexity 10.977 (-0.2363)\n"
            "          accuracy 0.3350 (+0.0040)  org.example.cache@0.1.0 [c07d55e2]\n");
  const std::string narrow = watch_line("10:32:40", watched_result(), &previous, 50);
  EXPECT_THAT(narrow, HasSubstr("\n          accuracy 0.3350 (+0.0040)\n"));
  EXPECT_THAT(narrow, Not(HasSubstr("tokens/s")));
}

}  // namespace
}  // namespace mneme::cli
