#include "host/report/samples/samples.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "host/base/file/file.hpp"
#include "host/report/comparison/load.hpp"
#include "host/report/report.hpp"
#include "tests/report/report_folders.hpp"

namespace mneme::report {
namespace {

namespace fs = std::filesystem;
using test::Data;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

class Samples : public test::ReportFolders {
 protected:
  Samples() : ReportFolders({.seeds = {1, 2}, .documents = 6, .targets = 48}) {}
  static std::string generated(const std::string& run) {
    return run + "/generated/valid-step00002000-0123abcd.json";
  }
};

TEST_F(Samples, StandSideBySideOfTheFirstSeed) {
  const Comparison comparison = comparison_of(small_);
  const std::vector<SideBySide> all = side_by_side(comparison);
  ASSERT_THAT(all, SizeIs(2));
  EXPECT_EQ(all[0].seed, 1U);
  ASSERT_THAT(all[0].of_arms, SizeIs(3));
  for (std::size_t arm = 0; arm < 3; ++arm) {
    ASSERT_NE(all[0].of_arms[arm], nullptr);
    EXPECT_THAT(made_text(*all[0].of_arms[arm]),
                AllOf(HasSubstr("seed 1 "), HasSubstr(comparison.arms[arm].name)));
  }
  EXPECT_EQ(title_of(*all[0].asked), "valid, document 3, after its first 120 tokens");
  EXPECT_EQ(title_of(*all[1].asked), "valid, document 5, from its beginning");
  EXPECT_EQ(made_text(*all[1].of_arms[2]), "7 1 32");
  EXPECT_EQ(missing_words(comparison), "");
}

// A prompt is cut at its beginning, between characters, and the page says so.
TEST_F(Samples, ShortenPromptsAtTheirBeginning) {
  const Comparison comparison = comparison_of(small_);
  const std::vector<SideBySide> all = side_by_side(comparison);
  const Excerpt text = prompt_excerpt(*all[0].asked);
  EXPECT_TRUE(text.is_shortened);
  EXPECT_EQ(std::ranges::count_if(
                text.text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }),
            400);
  EXPECT_TRUE(text.text.ends_with(" word59 \xC3\xA9"));
  EXPECT_EQ(prompt_title(*all[0].asked, text), "prompt of 120 tokens, its last 400 characters");
  const Excerpt ids = prompt_excerpt(*all[1].asked);
  EXPECT_TRUE(ids.text.starts_with("40 41 "));
  EXPECT_EQ(prompt_title(*all[1].asked, ids), "prompt of 120 tokens, its last 80 ids");
  EXPECT_THAT(samples_html(comparison), HasSubstr("\xE2\x80\xA6 "));
}

TEST_F(Samples, CannotBreakPageOrMarkdown) {
  const Report report = make_report(comparison_of(small_));
  const std::string html = page(report);
  EXPECT_THAT(html, Not(HasSubstr("<script>alert")));
  EXPECT_THAT(html, AllOf(HasSubstr("&lt;/script&gt;&lt;script&gt;alert(1)&lt;/script&gt;"),
                          HasSubstr("true &lt;i&gt;words&lt;/i&gt; &amp; more\n"),
                          HasSubstr("<h4>true continuation</h4>"), HasSubstr("<h4>xl_cache</h4>")));
  const std::string markdown = report.markdown();
  EXPECT_THAT(markdown, AllOf(HasSubstr("### Generated samples"), Not(HasSubstr("<script>")),
                              HasSubstr("\\*of\\* xl\\_cache"),
                              HasSubstr("&amp; more \\| a \"second\" line\n")));
}

TEST_F(Samples, AreInTheReportsFilesForEverySeed) {
  const Report report = make_report(comparison_of(small_));
  const auto sheet = std::ranges::find(report.sheets, "samples", &Sheet::key);
  ASSERT_NE(sheet, report.sheets.end());
  // Of two samples: prompt, true continuation, and what 3 arms made from 2 seeds.
  EXPECT_THAT(sheet->rows, SizeIs(2 * (2 + 6)));
  const Json tables = report.json().at("tables");
  EXPECT_TRUE(std::ranges::any_of(tables, [](const Json& table) {
    return table.at("key") == "samples" &&
           table.dump().find("seed 2 </script>") != std::string::npos;
  }));
  EXPECT_THAT(report.text(0), Not(HasSubstr("alert")));
}

TEST_F(Samples, OfTasksAreAnswersWithWrongTokensMarked) {
  small_.data = Data::kSequence;
  const Comparison comparison = comparison_of(small_);
  const std::vector<SideBySide> all = side_by_side(comparison);
  ASSERT_THAT(all, SizeIs(5));
  const Shown& first = *all[0].of_arms[0];
  EXPECT_THAT(first.expected, SizeIs(32));
  EXPECT_EQ(first.left_out, 16);
  // The fixture predicts one more than the target where it is wrong.
  for (std::size_t i = 0; i < first.expected.size(); ++i) {
    EXPECT_TRUE(first.made[i] == first.expected[i] || first.made[i] == first.expected[i] + 1);
  }
  const std::int64_t right = right_tokens(first);
  EXPECT_GT(right, 0);
  EXPECT_LT(right, 32);
  const std::string html = samples_html(comparison);
  EXPECT_THAT(html, AllOf(HasSubstr("<h2>Answers</h2>"), HasSubstr("<u class=\"wrong\">"),
                          HasSubstr(str(right, " of 32 right")),
                          HasSubstr("the last 32 of 48 targets"), HasSubstr("<h4>answer</h4>")));
}

TEST_F(Samples, ThatAreDamagedAreNamedAndLeftOut) {
  test::write_comparison(folder("runs"), small_);
  write_file_atomic(folder("runs") / generated("xl_cache-seed1"), "{");
  fs::remove(folder("runs") / generated("compressive-seed1"));
  const Comparison comparison = load({folder("runs")});
  ASSERT_THAT(comparison.notes, SizeIs(1));
  EXPECT_THAT(comparison.notes[0], AllOf(HasSubstr("xl_cache-seed1: generated samples were left "
                                                   "out: "),
                                         HasSubstr("the stored samples are damaged")));
  // Seed 2 has the samples of all arms.
  EXPECT_EQ(side_by_side(comparison).front().seed, 2U);
  EXPECT_THAT(missing_words(comparison),
              AllOf(HasSubstr("No samples are stored of xl_cache-seed1, compressive-seed1."),
                    HasSubstr("mneme generate RUN --for-report 3")));
}

TEST_F(Samples, OfOneArmAloneLeaveTheOthersEmpty) {
  test::write_comparison(folder("runs"), small_);
  for (const char* run : {"none-seed1", "none-seed2", "compressive-seed1", "compressive-seed2"}) {
    fs::remove(folder("runs") / generated(run));
  }
  const Comparison comparison = load({folder("runs")});
  EXPECT_EQ(side_by_side(comparison).front().of_arms.front(), nullptr);
  EXPECT_THAT(samples_html(comparison), HasSubstr("none stored"));
}

TEST_F(Samples, OfOldRunsAreMissingAndThePageSaysHowToMakeThem) {
  small_.has_samples = false;
  const Report report = make_report(comparison_of(small_));
  EXPECT_THAT(page(report), AllOf(HasSubstr("No samples are stored of none-seed1"),
                                  HasSubstr("mneme generate RUN --for-report 3")));
  EXPECT_THAT(report.markdown(), Not(HasSubstr("Generated samples")));
  small_.data = Data::kSequence;
  fs::remove_all(folder("runs"));
  EXPECT_THAT(page(make_report(comparison_of(small_))),
              HasSubstr("&quot;mneme eval RUN&quot; stores what is predicted"));
}

}  // namespace
}  // namespace mneme::report
