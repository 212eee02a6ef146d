// What a report says where evaluations read a part of a split.
#include "host/report/setup/shares.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "host/base/file/file.hpp"
#include "host/report/suite/suite_report.hpp"
#include "tests/report/report_folders.hpp"

namespace mneme::report {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Every run reads 12 documents of 32 targets.
class Shares : public test::ReportFolders {};

TEST_F(Shares, APartOfASplitIsSaidInEveryFormat) {
  small_.split_targets = 650;
  const Report report = of(small_);
  const std::string words = "59.0 % of valid was read";
  EXPECT_EQ(share_words(report.comparison, "valid"), words);
  const std::vector<std::string> verdict = sentences_of(report.verdict);
  EXPECT_THAT(verdict[0], HasSubstr("On valid (" + words + ") by loss, of 2 arms"));
  EXPECT_THAT(join(verdict, "\n"), HasSubstr("Only a part of the split was read: " + words +
                                             ", 384 of 650 targets, because eval.steps ended"));
  for (const char* key : {"results", "differences", "perplexity"}) {
    EXPECT_THAT(sheet_of(report, key).title, HasSubstr(" (" + words + ')')) << key;
  }
  EXPECT_THAT(report.text(0), HasSubstr("\nResults (" + words + ")\n"));
  EXPECT_THAT(report.markdown(), HasSubstr("### Results (" + words + ')'));
  EXPECT_THAT(write_sheets(report.sheets, Format::kLatex), HasSubstr("59.0 \\% of valid was read"));
  EXPECT_THAT(page(report, ""), HasSubstr("Results (" + words + ')'));
  for (const char* key : {"difference-valid-loss", "place-valid", "loss-over-state_bytes-valid"}) {
    ASSERT_NE(figure_of(report, key), nullptr) << key;
    EXPECT_THAT(figure_of(report, key)->caption, HasSubstr(words + '.')) << key;
  }
  EXPECT_THAT(figure_of(report, "training-loss")->caption, Not(HasSubstr(words)));
}

TEST_F(Shares, NothingIsSaidWhereAllWasReadOrNothingIsKnown) {
  for (const std::int64_t targets : {0, 12 * 32}) {
    small_.split_targets = targets;
    const Report report = of(small_);
    EXPECT_EQ(share_words(report.comparison, "valid"), "");
    EXPECT_EQ(share_suffix(report.comparison), "");
    EXPECT_THAT(report.text(0), Not(HasSubstr("was read")));
  }
}

// Runs that read other parts are told by the smallest and the largest one.
TEST_F(Shares, OtherSharesAreARange) {
  small_.split_targets = 640;
  Comparison comparison = comparison_of(small_);
  EvaluationSummary& other = comparison.arms[1].runs[0].evaluations[0];
  other.record["result"]["protocol"]["targets"] = other.total.targets;
  EXPECT_EQ(share_words(comparison, "valid"), "60.0 to 100.0 % of valid was read");
  // A file that says something else than a number says nothing.
  other.record["result"]["protocol"]["targets"] = "many";
  EXPECT_FALSE(partial_share(other).has_value());
}

// Of a split that is nearly read through, "100 %" would be wrong.
TEST_F(Shares, AlmostAllIsNotAll) {
  small_.split_targets = 12 * 32 + 1;
  EXPECT_EQ(share_words(comparison_of(small_), "valid"), "99.7 % of valid was read");
  small_.documents = 300;
  small_.split_targets = 300 * 32 + 1;
  EXPECT_EQ(share_words(comparison_of(small_), "valid"), "99.9 % of valid was read");
}

TEST_F(Shares, TheTableOfASuiteNamesTheTasks) {
  small_.data = test::Data::kSequence;
  small_.split_targets = 768;
  test::write_comparison(folder("first"), small_);
  test::write_comparison(folder("second"), small_);
  const SuiteReport report =
      suite_report(folder("first").parent_path(),
                   {.command = "",
                    .file = "s.toml",
                    .tasks = {{"copy", "first", "accuracy"}, {"needle", "second", "accuracy"}}});
  EXPECT_THAT(join(report.sheets.front().notes, "\n"),
              HasSubstr("copy, needle: Only a part of the split was read: 50.0 %"));
}

}  // namespace
}  // namespace mneme::report
