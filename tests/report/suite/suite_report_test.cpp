// A suite's tables together, and its files.
#include "host/report/suite/suite_report.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "host/base/error.hpp"
#include "host/base/file/file.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/report/fixture.hpp"

namespace mneme::report {
namespace {

namespace fs = std::filesystem;
using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// Two tasks of two seeds; the task "second" lacks the third arm.
class SuiteReports : public ::testing::Test {
 protected:
  void SetUp() override {
    test::Fixture task{
        .data = test::Data::kSequence, .seeds = {1, 2}, .documents = 6, .targets = 32};
    test::write_comparison(root_ / "first", task);
    task.arms.pop_back();
    test::write_comparison(root_ / "second", task);
  }
  [[nodiscard]] SuiteReport report() const { return suite_report(root_.path(), record_); }

  SuiteRecord record_{
      .command = "mneme compare --suite s.toml",
      .file = "s.toml",
      .tasks = {{"first", "first", "accuracy"}, {"second", "second", "outside_accuracy"}}};
  mneme::test::TemporaryFolder root_;
};

TEST_F(SuiteReports, HaveAggregatesOfTheMemoriesWithAllTasks) {
  const SuiteReport all = report();
  ASSERT_EQ(all.sheets.size(), 3u);
  const Sheet& sheet = all.sheets[1];
  EXPECT_THAT(sheet.headings, ElementsAre("aggregate", "none", "xl_cache"));
  EXPECT_THAT(sheet.notes, Contains("compressive is left out: it has 0 of 2 seeds of second."));
  const auto mean = [&](std::size_t task) {
    return all.sheets[0].rows[task][2].value["mean"].get<double>();
  };
  EXPECT_NEAR(sheet.rows[1][2].value["value"].get<double>(), (mean(0) + mean(1)) / 2, 1e-12);
  const std::string text = all.text(Format::kText);
  EXPECT_LT(text.find("Accuracy by task and memory"), text.find("\nAggregates over tasks\n"));
  EXPECT_EQ(text.find("threshold"), text.npos);
  EXPECT_THAT(all.text(Format::kCsv), HasSubstr("\r\n\r\narm,threshold,share,low,high\r\n"));
  const Json json = all.json();
  EXPECT_EQ(json["key"], "suite");
  EXPECT_EQ(json["aggregates"]["key"], "suite-aggregates");
  EXPECT_EQ(json["profiles"]["rows"].size(), 2u * 101);
  EXPECT_EQ(all.text(Format::kJson), figure::json_text(json, 2) + '\n');
  // Points of an axis are no tasks.
  record_.kind = SuiteKind::kCapacity;
  EXPECT_EQ(report().sheets.size(), 1u);
  EXPECT_THAT(report().sheets[0].notes, Each(Not(HasSubstr("aggregates"))));
}

TEST_F(SuiteReports, AreWrittenIntoAFolderThatIsMade) {
  record_.tasks[0].name = "a\xff";  // no UTF-8
  const fs::path out = root_ / "new" / "folder";
  const SuiteReport all = report();
  all.write(out);
  EXPECT_THAT(all.figure_files(out), ElementsAre(out / "figures" / "suite-profiles.vl.json"));
  EXPECT_TRUE(fs::exists(all.figure_files(out)[0]));
  for (const char* name : {"suite.txt", "suite.csv", "suite.md", "suite.tex",
                           "suite-aggregates.csv", "suite-profiles.csv"}) {
    EXPECT_THAT(read_file(out / name), HasSubstr("xl")) << name;
  }
  EXPECT_THAT(read_file(out / "suite.md"), HasSubstr("### Aggregates over tasks"));
  EXPECT_THAT(read_file(out / "suite.html"), HasSubstr("share of runs above it"));
  EXPECT_EQ(Json::parse(read_file(out / "suite-table.json"))["rows"][0][0], "a\xEF\xBF\xBD");
  // What a report without aggregates has not is not left there.
  write_file_atomic(out / "figures" / "suite-profiles.svg", "drawn");
  record_.tasks.pop_back();
  const SuiteReport one = report();
  EXPECT_THAT(one.sheets[0].notes, Contains(HasSubstr("No aggregates over tasks: they need two")));
  one.write(out);
  for (const char* name : {"suite-aggregates.csv", "suite-profiles.csv", "suite.html"})
    EXPECT_FALSE(fs::exists(out / name)) << name;
  EXPECT_TRUE(fs::is_empty(out / "figures"));
  write_file_atomic(root_ / "file", "");
  try {
    one.write(root_ / "file" / "below");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kRun);
    EXPECT_THAT(error.what(), HasSubstr("cannot make the folder"));
  }
}

}  // namespace
}  // namespace mneme::report
