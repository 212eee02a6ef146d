// The files of a report, and the parts of its page.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "host/base/file/file.hpp"
#include "host/figure/page.hpp"
#include "host/report/comparison/load.hpp"
#include "host/report/report.hpp"
#include "tests/report/report_folders.hpp"

namespace mneme::report {
namespace {

namespace fs = std::filesystem;
using test::Fixture;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class ReportFiles : public test::ReportFolders {
 protected:
  ReportFiles() : ReportFolders({.seeds = {1}, .documents = 12, .targets = 32}) {}
};

TEST_F(ReportFiles, NamesOfMetricsMayHaveAnyLetter) {
  test::write_comparison(folder("runs"), small_);
  const fs::path metrics = folder("runs") / "xl_cache-seed1" / "metrics.jsonl";
  const std::string long_name(400, 'x');
  std::string text;
  const std::string lines = read_file(metrics);
  for (std::size_t begin = 0; begin < lines.size();) {
    const std::size_t end = lines.find('\n', begin);
    Json line = Json::parse(lines.substr(begin, end - begin));
    if (line["kind"] == "step")
      line["metrics"] = {{"used/rows", 1}, {"used:rows", 2}, {long_name, 3}};
    text += line.dump() + '\n';
    begin = end + 1;
  }
  write_file_atomic(metrics, text);
  const Report report = make_report(load({folder("runs")}));
  EXPECT_TRUE(fs::exists(report.write(folder("out"))));
  EXPECT_TRUE(fs::exists(folder("out") / "figures" / "metric-used_rows.vl.json"));
  EXPECT_TRUE(fs::exists(folder("out") / "figures" / "metric-used_rows#2.vl.json"));
  const auto named = [&](const std::string& title) {
    return std::ranges::find(report.figures, title, &Figure::title) != report.figures.end();
  };
  EXPECT_TRUE(named("Metric used/rows") && named("Metric used:rows") &&
              named("Metric " + long_name));
}

TEST_F(ReportFiles, WhatAnEarlierReportHadAndThisOneHasNotIsRemoved) {
  const fs::path out = folder("out");
  static_cast<void>(of(small_).write(out));
  const fs::path own = out / "figures" / "difference-valid-loss.vl.json";
  ASSERT_TRUE(fs::exists(out / "differences.csv") && fs::exists(own));
  write_file_atomic(out / "mine.csv", "a\r\n");
  write_file_atomic(out / "figures" / "mine.vl.json", "{}");
  small_.arms.resize(1);
  const Report one = of(small_);
  static_cast<void>(one.write(out));
  EXPECT_FALSE(fs::exists(out / "differences.csv") || fs::exists(own));
  EXPECT_TRUE(fs::exists(out / "results.csv"));
  EXPECT_TRUE(fs::exists(out / "figures" / "training-loss.vl.json"));
  EXPECT_TRUE(fs::exists(out / "mine.csv"));
  EXPECT_TRUE(fs::exists(out / "figures" / "mine.vl.json"));
  // A report.json that is not ours leads to no other place.
  write_file_atomic(folder("a.csv"), "");
  write_file_atomic(folder("b.vl.json"), "");
  write_file_atomic(out / "report.json", Json({{"format", "mneme-report"},
                                               {"tables", {{{"key", "../a"}}, 3}},
                                               {"figures", {"../../b", nullptr}}})
                                             .dump());
  static_cast<void>(one.write(out));
  EXPECT_TRUE(fs::exists(folder("a.csv")) && fs::exists(folder("b.vl.json")));
}

TEST_F(ReportFiles, ThePageListsSentencesBelowTheirSummaries) {
  Report report = of(small_);
  report.verdict = {{"Of two arms:", {"on one", "On two"}}, {"A <warning>."}};
  EXPECT_THAT(page(report, ""),
              HasSubstr("id=\"verdict\">\n<p class=\"summary\">Of two arms:</p>\n<ul>\n"
                        "<li>on one</li>\n<li>On two</li>\n</ul>\n"
                        "<p>A &lt;warning&gt;.</p>\n</section>\n"));
  EXPECT_THAT(report.text(0), StartsWith("Of two arms:\non one\nOn two\nA <warning>.\n\n"));
}

TEST_F(ReportFiles, OneArmIsNoBaseline) {
  EXPECT_THAT(page(of(small_), ""), HasSubstr("3 arms \xC2\xB7 1 seed \xC2\xB7 task text"));
  small_.arms.resize(1);
  const std::string html = page(of(small_), "");
  EXPECT_THAT(html, HasSubstr("<p class=\"faint\">1 arm \xC2\xB7 1 seed \xC2\xB7 task text"));
  EXPECT_THAT(html.substr(0, html.find("<script type=\"application/json\"")),
              Not(HasSubstr("baseline")));
}

TEST_F(ReportFiles, WithoutVegaOneMessageSaysWhatToDo) {
  const std::string html = page(of(small_), "");
  EXPECT_THAT(html, HasSubstr(figure::escape(figure::kWithoutVega)));
  for (const char* words : {"scripts/setup.sh", "-DMNEME_VEGA=FILE", "build again"}) {
    EXPECT_THAT(std::string(figure::kWithoutVega), HasSubstr(words));
  }
}

TEST_F(ReportFiles, ASweepBelowZeroHasALinearAxis) {
  const auto scale_of = [&](std::vector<std::int64_t> values) {
    Fixture sweep{.arms = {{.name = "none"}}, .seeds = {1}, .documents = 4};
    for (const std::int64_t rows : values) {
      sweep.arms.push_back({.name = str("rows=", rows), .shift = -0.1, .rows = rows});
    }
    const Report report = of(sweep);
    EXPECT_EQ(report.figures.front().key, "loss-over-setting-valid");
    return report.figures.front().spec["layer"][0]["encoding"]["x"]["scale"];
  };
  EXPECT_EQ(scale_of({8, 64, 512}).value("type", ""), "log");
  const Json linear = scale_of({-8, 64, 512});
  EXPECT_FALSE(linear.contains("type")) << linear;
  EXPECT_EQ(linear["zero"], false);
}

}  // namespace
}  // namespace mneme::report
