// The table of a suite and its files.
#include "host/report/suite/suite.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "host/base/error.hpp"
#include "host/base/file/file.hpp"
#include "host/report/comparison/load.hpp"
#include "host/report/suite/scale.hpp"
#include "host/report/suite/suite_report.hpp"
#include "host/report/tables/tables.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/report/fixture.hpp"

namespace mneme::report {
namespace {

namespace fs = std::filesystem;
using test::Fixture;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Suite : public ::testing::Test {
 protected:
  // The task "second" lacks the third arm.
  void SetUp() override {
    Fixture task{.data = test::Data::kSequence, .seeds = {1, 2}, .documents = 6, .targets = 32};
    test::write_comparison(root_ / "first", task);
    task.arms.pop_back();
    test::write_comparison(root_ / "second", task);
  }
  [[nodiscard]] Sheet sheet() const {
    SuiteScores scores;
    return suite_sheet(root_.path(), record_, scores);
  }

  SuiteRecord record_{
      .command = "mneme compare --suite s.toml",
      .file = "s.toml",
      .tasks = {{"first", "first", "accuracy"}, {"second", "second", "outside_accuracy"}}};
  mneme::test::TemporaryFolder root_;
};

TEST_F(Suite, HasTasksInRowsAndMemoriesInColumns) {
  const Sheet table = sheet();
  EXPECT_THAT(table.headings,
              ElementsAre("task", "none", "xl_cache", "compressive", "noise floor"));
  ASSERT_EQ(table.rows.size(), 2u);
  EXPECT_EQ(table.rows[1][0].text, "second, outside");
  EXPECT_EQ(table.rows[1][3].text, "-");
  const Json& value = table.rows[0][2].value;
  EXPECT_EQ(value["values"].size(), 2u);
  const double mean = value["mean"].get<double>();
  EXPECT_NEAR(mean, (value["values"][0].get<double>() + value["values"][1].get<double>()) / 2,
              1e-12);
  EXPECT_EQ(table.rows[0][2].text,
            str(format_number(mean, 3), " [", format_number(value["low"].get<double>(), 3), ", ",
                format_number(value["high"].get<double>(), 3), ']'));
  EXPECT_THAT(table.notes, ElementsAre(HasSubstr("Mean over 2 seeds")));
}

// Of the tasks' numbers of two seeds: sqrt(2) times the pooled standard deviation is the root mean
// square of the differences.
TEST_F(Suite, HasTheNoiseFloorOfEachTask) {
  const Sheet table = sheet();
  for (const auto& [task, arms] : {std::pair(0U, 3U), std::pair(1U, 2U)}) {
    double squares = 0.0;
    for (std::size_t arm = 1; arm <= arms; ++arm) {
      const Json& values = table.rows[task][arm].value["values"];
      squares += std::pow(values[0].get<double>() - values[1].get<double>(), 2);
    }
    const double floor = std::sqrt(squares / arms);
    ASSERT_GT(floor, 0.0);
    EXPECT_NEAR(table.rows[task].back().value.get<double>(), floor, 1e-12);
    EXPECT_EQ(table.rows[task].back().text, format_number(floor, 3));
  }
}

TEST_F(Suite, ItsCsvHasARowForEachTaskAndMemory) {
  const Sheet table = sheet();
  const std::string csv = write_sheet(table, Format::kCsv);
  EXPECT_THAT(csv, ::testing::StartsWith("task,measure,arm,seeds,mean,low,high,deviation\r\n"
                                         "first,accuracy,none,2,0."));
  EXPECT_THAT(csv, HasSubstr("\r\nsecond,outside_accuracy,xl_cache,2,0."));
  EXPECT_EQ(csv.find('{'), csv.npos) << csv;
  EXPECT_EQ(std::ranges::count(csv, '\n'), 6) << "the second task lacks an arm";
}

TEST_F(Suite, ATaskMayShowItsLoss) {
  record_.tasks[1].measure = "loss";
  const Sheet table = sheet();
  EXPECT_EQ(table.title, "Accuracy and loss by task and memory");
  EXPECT_EQ(table.rows[1][0].text, "second, loss");
  const Json& value = table.rows[1][2].value;
  EXPECT_GT(value["mean"].get<double>(), 1.0);
  EXPECT_GT(value["high"].get<double>(), value["mean"].get<double>()) << "not cut at 1";
  EXPECT_THAT(table.rows[1][2].text,
              ::testing::StartsWith(format_number(value["mean"].get<double>(), 4) + " ["));
  EXPECT_THAT(table.notes, ElementsAre(HasSubstr("\"loss\": nats a token, lower is better.")));
  EXPECT_THAT(write_sheet(table, Format::kCsv), HasSubstr("\r\nsecond,loss,xl_cache,2,"));
  record_.tasks.erase(record_.tasks.begin());
  EXPECT_EQ(sheet().title, "Loss by task and memory");
}

// A text has an accuracy, that of its next tokens, but no sources.
TEST_F(Suite, SaysWhereAMeasureIsMissing) {
  test::write_comparison(root_ / "text", {.seeds = {1}, .documents = 6, .targets = 32});
  record_.tasks = {{"text", "text", "accuracy"}};
  EXPECT_THAT(sheet().rows[0][1].text, ::testing::StartsWith("0."));
  record_.tasks = {{"text", "text", "outside_accuracy"}};
  const Sheet table = sheet();
  EXPECT_EQ(table.rows[0][1].text, "-");
  EXPECT_THAT(table.notes, ::testing::Contains(HasSubstr(
                               "text: no run has a number for \"outside_accuracy\" on valid")));
}

// A line of 345 points has room for five intervals.
TEST_F(Suite, OfManyMemoriesHasARowForEachInAPaper) {
  Sheet table = sheet();
  EXPECT_THAT(write_sheet(table, Format::kLatex), HasSubstr("task & none & xl\\_"));
  for (int i = 0; i < 9; ++i) {
    table.headings.push_back(str("memory", i));
    for (std::vector<Cell>& row : table.rows) row.push_back(row[1]);
  }
  const std::string latex = write_sheet(table, Format::kLatex);
  EXPECT_THAT(latex, HasSubstr("\nfirst & none & " + table.rows[0][1].text + " \\tabularnewline"));
  EXPECT_THAT(latex, HasSubstr("\n & memory8 & " + table.rows[0][1].text + " \\tabularnewline"));
  EXPECT_THAT(latex, HasSubstr("\nsecond, outside & none & "));
}

TEST_F(Suite, NamesComparisonsThatCannotBeRead) {
  record_.tasks.push_back({"third", "damaged", "accuracy"});
  fs::create_directories(root_ / "damaged");
  write_file_atomic(root_ / "damaged" / "comparison.json", "{");
  const Sheet table = sheet();
  ASSERT_EQ(table.rows.size(), 3u);
  EXPECT_EQ(table.rows[2][1].text, "-");
  ASSERT_EQ(table.notes.size(), 2u);
  EXPECT_THAT(table.notes[1], HasSubstr("third: "));
  EXPECT_THAT(table.notes[1], HasSubstr("comparison.json: is damaged"));
}

// The last command named fewer tasks, or points, than one before.
TEST_F(Suite, NamesComparisonsThatTheLastCommandLeftOut) {
  record_.tasks.pop_back();
  fs::create_directories(root_ / "figures");
  EXPECT_THAT(sheet().notes,
              ElementsAre(HasSubstr("Mean over 2 seeds"),
                          "Not in this table: second, which the folder has and the last command "
                          "did not name; a command that names it, too, shows it."));
  record_.tasks.front() = {"third", "third", "loss"};
  EXPECT_THAT(sheet().notes.back(), HasSubstr("Not in this table: first, second, which"));
}

// Stopped in the second task: of its four runs one is done, one failed.
TEST_F(Suite, SaysHowFarAnInterruptedSuiteIs) {
  record_.tasks.push_back({"third", "third", "loss"});
  const fs::path file = root_ / "second" / "comparison.json";
  Json json = Json::parse(read_file(file));
  const auto wait = [&](const char* name, Json& run) {
    run["state"] = "waiting";
    run["folder"] = name;  // that is not made yet
  };
  wait("later1", json["arms"][0]["runs"][1]);
  wait("later2", json["arms"][1]["runs"][1]);
  json["arms"][1]["runs"][0]["state"] = "failed";
  write_file_atomic(file, json.dump());
  const Sheet table = sheet();
  ASSERT_EQ(table.rows.size(), 3u);
  EXPECT_EQ(table.rows[2][0].text, "third, loss");
  EXPECT_EQ(table.rows[2][1].text, "-");
  EXPECT_THAT(table.rows[0][1].text, ::testing::Not(HasSubstr("seed")));
  EXPECT_THAT(table.rows[1][1].text, ::testing::MatchesRegex("0\\.[0-9]{3} \\(1 seed\\)"));
  EXPECT_EQ(table.rows[1][2].text, "-");
  EXPECT_THAT(table.notes,
              ElementsAre(HasSubstr("Mean over 2 seeds"),
                          "second: 1 of 4 runs are done; 1 of 4 runs failed, its own report says "
                          "why.",
                          "third has not begun."));
}

// Both tasks as points of an axis; the second lacks the third arm.
class Points : public Suite {
 protected:
  Points() {
    record_.kind = SuiteKind::kCapacity;
    const std::vector<std::string> arms = {"none", "xl_cache", "compressive"};
    for (int i = 0; i < 2; ++i) {
      SuiteTaskRecord& task = record_.tasks[static_cast<std::size_t>(i)];
      task.measure = "outside_accuracy";
      task.label = i == 0 ? "1x: 1 KiB" : "2x: 2 KiB";
      for (int arm = 0; arm < 3 - i; ++arm) {
        task.sizes.push_back({arms[static_cast<std::size_t>(arm)],
                              str("memory.tier.0.rows=", 8 + i), 1024 * (i + 1) + arm});
      }
    }
    record_.tasks[1].left_out = {"compressive: memory.tier.0.rows = 0 has 4096 bytes"};
  }
};

TEST_F(Points, HaveBytesInRowsAndTheSizesInNotes) {
  const Sheet table = sheet();
  EXPECT_EQ(table.title, "Accuracy by bytes of state and memory");
  EXPECT_THAT(table.headings, ElementsAre("state a lane", "none", "xl_cache", "compressive"));
  EXPECT_EQ(table.rows[1][0].text, "2x: 2 KiB");
  EXPECT_EQ(table.rows[1][3].text, "-");
  EXPECT_EQ(table.rows[1][2].value["bytes"], 2049);
  EXPECT_THAT(
      table.notes,
      ElementsAre(::testing::EndsWith("mean over seeds]. Accuracy of the targets whose source lies "
                                      "before the segment."),
                  "none: memory.tier.0.rows=8 (1024 bytes), memory.tier.0.rows=9 (2048 bytes).",
                  "xl_cache: memory.tier.0.rows=8 (1025 bytes), memory.tier.0.rows=9 (2049 bytes).",
                  "compressive: memory.tier.0.rows=8 (1026 bytes).",
                  "second leaves out compressive: memory.tier.0.rows = 0 has 4096 bytes."));
  const std::string csv = write_sheet(table, Format::kCsv);
  EXPECT_THAT(csv, ::testing::StartsWith("task,measure,arm,seeds,mean,low,high,deviation,bytes,"
                                         "setting\r\n"));
  EXPECT_THAT(csv, HasSubstr(",1025,memory.tier.0.rows=8\r\n"));
}

TEST_F(Points, HaveAFigureWithTheTablesNumbers) {
  const Sheet table = sheet();
  const std::vector<figure::Figure> figures = suite_figures(record_, table);
  ASSERT_EQ(figures.size(), 1U);
  EXPECT_EQ(figures[0].caption,
            "Lines are means over seeds, bands 95 % intervals of the mean over seeds.");
  const Json& points = figures[0].spec["data"]["values"];
  ASSERT_EQ(points.size(), 5U);
  const Json& second = points[3];
  EXPECT_EQ(second["arm"], "xl_cache");
  EXPECT_EQ(second["x"], 2049);
  EXPECT_EQ(second["mean"], table.rows[1][2].value["mean"]);
  EXPECT_EQ(second["high"], table.rows[1][2].value["high"]);
  EXPECT_EQ(figures[0].spec["layer"].size(), 3U) << "bands, lines, points";
  EXPECT_EQ(figures[0].spec["layer"][1]["encoding"]["x"]["axis"]["values"], Json({1024, 2048}));
  SuiteReport{.sheets = {table}, .figures = figures}.write(root_ / "out");
  EXPECT_TRUE(fs::exists(root_ / "out" / "figures" / "capacity.vl.json"));
  EXPECT_THAT(read_file(root_ / "out" / "suite.html"), HasSubstr("bytes of state a lane"));

  record_.kind = SuiteKind::kSuite;
  EXPECT_TRUE(suite_figures(record_, table).empty());
  record_.kind = SuiteKind::kCapacity;
  record_.tasks.pop_back();
  EXPECT_TRUE(suite_figures(record_, sheet()).empty()) << "one point is no line";
}

TEST_F(Points, ReadBack) {
  write_file_atomic(root_ / "suite.json", to_json(record_).dump());
  EXPECT_EQ(to_json(read_suite_record(root_.path())), to_json(record_));
  Json damaged = to_json(record_);
  damaged["kind"] = "other";
  write_file_atomic(root_ / "suite.json", damaged.dump());
  EXPECT_THROW(static_cast<void>(read_suite_record(root_.path())), Error);
}

// A ladder of five sizes of two memories; losses are 10 n^-0.1 and 14 n^-0.14 at 10^6 n operations.
Sheet ladder(std::size_t sizes, int seeds) {
  Sheet sheet{.key = "suite", .title = "Loss", .headings = {"size", "first", "second"}};
  for (std::size_t i = 0; i < sizes; ++i) {
    const double n = std::pow(4.0, static_cast<double>(i));
    std::vector<Cell>& row = sheet.rows.emplace_back(std::vector<Cell>{Cell(str(n, 'x'))});
    for (const auto& [factor, exponent] : {std::pair(10.0, 0.1), std::pair(14.0, 0.14)}) {
      const double mean = factor * std::pow(n, -exponent);
      Json values = Json::array();
      for (int seed = 0; seed < seeds; ++seed)
        values.push_back(mean * (1.0 + 1e-4 * (2 * seed - seeds + 1)));
      row.push_back(
          {"",
           {{"mean", mean}, {"values", values}, {"parameters", 1e3 * n}, {"operations", 1e6 * n}}});
    }
  }
  return sheet;
}

// They are equal at n = 1.4^25, which the first four sizes, up to 64, do not reach.
TEST(Ladder, HasExponentsAndTheSizeAtWhichOneOvertakesTheOther) {
  EXPECT_THAT(
      scale_notes(ladder(4, 1)),
      ElementsAre("first: loss over operations has exponent 0.100, the slope of logarithms at 4 "
                  "sizes; a floor needs 5.",
                  "second: loss over operations has exponent 0.140, the slope of logarithms at 4 "
                  "sizes; a floor needs 5.",
                  "first and second: no crossing in this range, 1.00k to 64.0k parameters of the "
                  "backbone."));
  const std::vector<std::string> notes = scale_notes(ladder(8, 2));
  ASSERT_EQ(notes.size(), 3U);
  EXPECT_THAT(notes[0],
              ::testing::MatchesRegex("first: loss over operations has exponent 0\\.1[0-9]* "
                                      "\\[0\\.[0-9]*, 0\\.[0-9]*\\], of the power law 0\\.0[0-9]* "
                                      "\\+ a C\\^-b fitted to 8 sizes\\."));
  EXPECT_THAT(notes[2], ::testing::StartsWith("second overtakes first at 4.50M parameters of the "
                                              "backbone ["));
  EXPECT_THAT(notes[2], HasSubstr("]; 100 % of resamples have a crossing."));
  // Of a quarter of the draws the second is above the first at all sizes.
  Sheet open = ladder(4, 2);
  for (std::vector<Cell>& row : open.rows) {
    row[1].value["values"] = {2.0, 2.0};
    row[2].value["values"] = {3.0, 3.0};
  }
  open.rows[3][2].value["values"] = {1.0, 2.8};
  EXPECT_THAT(scale_notes(open)[2],
              ::testing::MatchesRegex(
                  "second crosses first at 54\\.8k parameters of the backbone \\[[0-9.]*k, above "
                  "64\\.0k\\], not decided: the interval leaves the range; 7[0-9] % of resamples "
                  "have a crossing\\."));
  Sheet two = ladder(2, 1);
  EXPECT_THAT(scale_notes(two)[0],
              "first: 2 sizes have losses and operations; an exponent needs 3.");
  two.rows[1][1].value = nullptr;
  EXPECT_THAT(scale_notes(two), ::testing::SizeIs(2)) << "one size that both have";
}

// The fixture's comparisons as sizes: their arms' costs come from the stored files.
TEST_F(Suite, OfSizesHasCostsAndThreeFigures) {
  record_.kind = SuiteKind::kScale;
  for (SuiteTaskRecord& task : record_.tasks) task.measure = "loss";
  record_.tasks[0].label = "1x: 2 layers of width 64, 100 steps";
  const Sheet table = sheet();
  EXPECT_EQ(table.title, "Loss by size of the model and memory");
  EXPECT_EQ(table.rows[0][0].text, "1x: 2 layers of width 64, 100 steps");
  const Json& value = table.rows[0][2].value;
  const Comparison comparison = load({root_ / "first"});
  const Arm& arm = comparison.arms[1];
  const TrainingPoint& last = arm.runs[0].training.back();
  EXPECT_EQ(value["parameters"], static_cast<double>(arm.backbone_parameters));
  EXPECT_EQ(value["operations"], *arm.training_flops * static_cast<double>(last.step * 640));
  EXPECT_GT(value["bytes"].get<double>(),
            4.0 * static_cast<double>(arm.backbone_parameters + arm.memory_parameters));
  EXPECT_GT(value["seconds"].get<double>(), 0.0);
  EXPECT_THAT(write_sheet(table, Format::kCsv),
              ::testing::StartsWith("task,measure,arm,seeds,mean,low,high,deviation,parameters,"
                                    "operations,bytes,seconds\r\n"));
  std::vector<std::string> keys;
  for (const figure::Figure& one : suite_figures(record_, table)) keys.push_back(one.key);
  EXPECT_THAT(keys, ElementsAre("scale-operations", "scale-bytes", "scale-seconds"));
}

TEST_F(Suite, ItsRecordReadsBack) {
  EXPECT_FALSE(is_suite(root_.path()));
  write_file_atomic(root_ / "suite.json", to_json(record_).dump());
  EXPECT_TRUE(is_suite(root_.path()));
  const SuiteRecord read = read_suite_record(root_.path());
  EXPECT_EQ(to_json(read), to_json(record_));
  for (const char* damaged : {"{", "[]", "{\"format\": \"mneme-suite\", \"version\": 2}"}) {
    write_file_atomic(root_ / "suite.json", damaged);
    try {
      static_cast<void>(read_suite_record(root_.path()));
      ADD_FAILURE() << damaged;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("it is no record of a suite: expected what mneme compare "
                                          "--suite, --capacity or --scale writes, version 1; run "
                                          "that command again"));
    }
  }
}

}  // namespace
}  // namespace mneme::report
