// The numbers that a suite has over all its tasks.
#include "host/report/suite/aggregates.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "host/report/tables/tables.hpp"

namespace mneme::report {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

// Two memories, two seeds; guesses of "copy" are right in a quarter of the cases.
SuiteScores two_tasks() {
  return {.tasks = {{.name = "copy",
                     .chance = 0.25,
                     .values = {{"none", {0.25, 0.25}}, {"cache", {1.0, 0.625}}}},
                    {.name = "text", .values = {{"none", {0.25, 0.5}}, {"cache", {0.5, 0.5}}}}},
          .arms = {"none", "cache"}};
}

double value_of(const Sheet& sheet, std::size_t row, std::size_t column) {
  return sheet.rows.at(row).at(column).value.at("value").get<double>();
}

TEST(SuiteAggregates, AreOfAccuraciesAboveChance) {
  const SuiteAggregates out = aggregate_suite(two_tasks());
  EXPECT_EQ(out.why_none, "");
  ASSERT_EQ(out.sheets.size(), 2u);
  const Sheet& sheet = out.sheets[0];
  EXPECT_THAT(sheet.headings, ElementsAre("aggregate", "none", "cache"));
  ASSERT_EQ(sheet.rows.size(), 5u);
  // Scores of none: 0, 0, 0.25, 0.5; of cache: 1, 0.5, 0.5, 0.5.
  EXPECT_DOUBLE_EQ(value_of(sheet, 0, 1), 0.125);
  EXPECT_DOUBLE_EQ(value_of(sheet, 0, 2), 0.5);
  EXPECT_DOUBLE_EQ(value_of(sheet, 1, 1), 0.1875);
  EXPECT_DOUBLE_EQ(value_of(sheet, 2, 2), 0.625);
  EXPECT_DOUBLE_EQ(value_of(sheet, 3, 2), 0.375);
  EXPECT_EQ(sheet.rows[4][0].text, "P(better than none)");
  EXPECT_EQ(sheet.rows[4][1].text, "-") << "of itself";
  EXPECT_DOUBLE_EQ(value_of(sheet, 4, 2), 0.875);
  EXPECT_THAT(sheet.rows[0][2].text, "0.500 [0.500, 0.750]");
  EXPECT_THAT(sheet.notes,
              ElementsAre("Score: (accuracy - chance) / (1 - chance), chance 0.2500 (copy); the "
                          "accuracy of text, whose chance is not known.",
                          HasSubstr("of 2 tasks with 2 seeds")));
  EXPECT_THAT(sheet.notes[1], HasSubstr("stratified by task; they are too narrow for so few "
                                        "seeds."));
  EXPECT_THAT(write_sheet(sheet, Format::kCsv),
              StartsWith("arm,aggregate,tasks,seeds,value,low,high\r\nnone,iqm,2,2,0.125,0.125,"));
}

TEST(SuiteAggregates, HaveAProfileAndItsFigure) {
  const SuiteAggregates out = aggregate_suite(two_tasks());
  const Sheet& profiles = out.sheets.at(1);
  EXPECT_TRUE(profiles.is_for_programs);
  ASSERT_EQ(profiles.rows.size(), 2u * 101);
  const auto share = [&](std::size_t row) { return profiles.rows[row].at(2).value; };
  EXPECT_EQ(share(0), 0.5);
  EXPECT_EQ(share(50), 0.0) << "0.5 is not above 0.5";
  EXPECT_EQ(share(101 + 49), 1.0);
  EXPECT_EQ(share(101 + 50), 0.25);
  ASSERT_EQ(out.figures.size(), 1u);
  const Json& spec = out.figures[0].spec;
  EXPECT_EQ(spec["data"]["values"].size(), 202u);
  EXPECT_EQ(spec["layer"][0]["mark"]["type"], "area");
  EXPECT_EQ(spec["layer"][1]["encoding"]["color"]["scale"]["domain"], Json({"none", "cache"}));
  EXPECT_THAT(out.figures[0].caption, HasSubstr("of 2 tasks with 2 seeds"));
}

TEST(SuiteAggregates, NameWhatIsLeftOut) {
  SuiteScores scores = two_tasks();
  scores.tasks.push_back({.name = "novels", .is_accuracy = false, .values = {{"none", {3.0}}}});
  scores.arms.insert(scores.arms.end(), {"short", "leaky"});
  for (SuiteScores::Task& task : scores.tasks) task.values["leaky"] = {1.0, 1.0};
  scores.faulty_arms = {"leaky"};
  scores.tasks[1].values["short"] = {1.0};
  Sheet sheet = aggregate_suite(scores).sheets.at(0);
  EXPECT_THAT(sheet.headings, ElementsAre("aggregate", "none", "cache"));
  sheet.notes.erase(sheet.notes.begin(), sheet.notes.begin() + 2);
  EXPECT_THAT(sheet.notes, ElementsAre("novels is left out: its measure is the loss.",
                                       "short is left out: it has 0 of 2 seeds of copy.",
                                       "leaky is left out: its memory is faulty."));
  // Without the baseline nothing is held against it.
  scores.tasks[0].values["none"] = {1.0};
  sheet = aggregate_suite(scores).sheets.at(0);
  EXPECT_THAT(sheet.headings, ElementsAre("aggregate", "cache"));
  EXPECT_EQ(sheet.rows.size(), 4u);
}

TEST(SuiteAggregates, NeedTasksAndSeeds) {
  const auto why = [](const SuiteScores& scores) {
    const SuiteAggregates out = aggregate_suite(scores);
    EXPECT_THAT(out.sheets, IsEmpty());
    EXPECT_THAT(out.figures, IsEmpty());
    return out.why_none;
  };
  SuiteScores scores = two_tasks();
  scores.tasks[1].is_accuracy = false;
  EXPECT_EQ(why(scores), "No aggregates over tasks: they need two tasks with an accuracy.");
  scores = two_tasks();
  for (SuiteScores::Task& task : scores.tasks) {
    for (auto& [arm, values] : task.values) values.resize(1);
  }
  EXPECT_EQ(why(scores), "No aggregates over tasks: they need two seeds.");
  for (SuiteScores::Task& task : scores.tasks) task.values.clear();
  EXPECT_EQ(why(scores), "No aggregates over tasks: they need two seeds.");
  scores = two_tasks();
  scores.tasks.push_back({.name = "later"});
  EXPECT_EQ(why(scores), "No aggregates over tasks: no memory has 2 seeds of every task.");
}

}  // namespace
}  // namespace mneme::report
