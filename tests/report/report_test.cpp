#include "host/report/report.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "host/base/file/file.hpp"
#include "host/report/comparison/load.hpp"
#include "tests/report/report_folders.hpp"

namespace mneme::report {
namespace {

namespace fs = std::filesystem;
using test::Data;
using test::Fixture;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

class ReportTest : public test::ReportFolders {};

// The JSON inside <script ... id="ID">.
Json embedded(const std::string& html, const std::string& id) {
  const std::string start = "id=\"" + id + "\">";
  const std::size_t begin = html.find(start) + start.size();
  return Json::parse(html.substr(begin, html.find("</script>", begin) - begin));
}

// Path and bytes of every file below a folder.
std::map<std::string, std::string> files_of(const fs::path& folder) {
  std::map<std::string, std::string> out;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    out[entry.path().lexically_relative(folder).string()] = read_file(entry.path());
  }
  return out;
}

// What an evaluation of questions with choices says beside its losses.
TEST_F(ReportTest, OfQuestionsHasTheirNormalisedAccuracyAndChance) {
  small_.data = Data::kQuestion;
  const Report report = of(small_);
  EXPECT_EQ(chance(report.comparison), 0.2);
  const Sheet& results = sheet_of(report, "results");
  EXPECT_THAT(results.notes, ::testing::Contains("Accuracy of guessing: 0.2000."));
  const auto row = std::ranges::find(results.rows, "valid accuracy, normalised",
                                     [](const std::vector<Cell>& cells) { return cells[0].text; });
  ASSERT_NE(row, results.rows.end());
  EXPECT_THAT((*row)[2].text, HasSubstr("0.2660"));  // of 16 rows
  small_.data = Data::kSequence;
  EXPECT_EQ(find_metric(metrics(comparison_of(small_)), "valid.accuracy_normalised"), nullptr);
}

TEST_F(ReportTest, MeanDifferencesAreThoseOfTheStoredLosses) {
  small_.seeds = {1, 2, 3};
  const Report report = of(small_);
  ASSERT_THAT(report.differences, SizeIs(2));
  const Comparison& comparison = report.comparison;
  for (const Difference& one : report.differences) {
    double expected = 0.0;
    for (const std::uint64_t seed : comparison.seeds) {
      expected += (comparison.arms[one.arm].find(seed)->find("valid")->loss() -
                   comparison.arms[0].find(seed)->find("valid")->loss()) /
                  3.0;
    }
    EXPECT_NEAR(one.mean, expected, 1e-12);
    EXPECT_NEAR(one.arm_mean - one.baseline_mean, one.mean, 1e-12);
    EXPECT_LT(one.low, one.mean);
    EXPECT_GT(one.high, one.mean);
    EXPECT_EQ(one.units, 12);
    EXPECT_EQ(one.targets, 12 * 32);
    EXPECT_GE(one.adjusted_p, one.p);
  }
  EXPECT_EQ(report.differences[0].verdict, Verdict::kBetter);
  EXPECT_EQ(report.differences[1].verdict, Verdict::kNoDifference);
  const std::vector<std::string> verdict = sentences_of(report.verdict);
  ASSERT_THAT(verdict, SizeIs(4));
  EXPECT_THAT(verdict[3], HasSubstr("The arms do not cost the same: "));
  EXPECT_THAT(verdict[3], HasSubstr("bytes of state a lane 0 to "));
  EXPECT_THAT(verdict[3], HasSubstr("memory.tier.0.rows"));
  EXPECT_EQ(verdict[0],
            "On valid by loss, of 2 arms against none: 1 better, 1 without a shown difference.");
  EXPECT_THAT(verdict[1], HasSubstr("xl_cache has a lower loss than none on valid: -0."));
  EXPECT_THAT(verdict[1], HasSubstr("Its perplexity is "));
  EXPECT_THAT(verdict[2],
              AllOf(HasSubstr("No difference in loss is shown between compressive and none"),
                    HasSubstr("would have been found in 80 % of such experiments")));
}

// The mean of the seeds' perplexities, which is more than exp of their mean loss.
TEST_F(ReportTest, AnArmHasOnePerplexity) {
  Comparison comparison = comparison_of(small_);
  for (Sample& sample : comparison.arms[1].runs[0].evaluations[0].samples) sample.sums.nll += 32.0;
  comparison.arms[1].runs[0].evaluations[0].total.nll += 12 * 32.0;  // 1 nat a target
  const Report report = make_report(std::move(comparison));
  const Sheet& results = sheet_of(report, "results");
  ASSERT_EQ(results.rows[1][0].text, "valid perplexity");
  const Sheet& perplexities = sheet_of(report, "perplexity");
  for (const Difference& one : report.differences) {
    const double mean = results.rows[1][one.arm + 1].value.get<double>();
    EXPECT_NEAR(perplexities.rows[one.arm - 1][1].value.get<double>(), mean, 1e-9);
    EXPECT_NEAR(perplexities.records.rows[one.arm - 1][3].get<double>(), mean, 1e-9);
    EXPECT_GT(mean, std::exp(one.arm_mean));
  }
  EXPECT_GT(report.differences[0].perplexity, 1.1 * std::exp(report.differences[0].arm_mean));
  EXPECT_NEAR(perplexities.rows[0][2].value.get<double>(), std::exp(report.differences[0].mean),
              1e-12);
  EXPECT_THAT(perplexities.notes, ElementsAre(HasSubstr("the mean of the seeds' perplexities")));
  EXPECT_THAT(report.latex(), HasSubstr("the mean of the seeds' perplexities"));
}

TEST_F(ReportTest, TasksAreComparedByAccuracyToo) {
  small_.data = Data::kSequence;
  small_.seeds = {1, 2, 3};
  const Report report = of(small_);
  ASSERT_THAT(report.differences, SizeIs(4));
  EXPECT_EQ(report.differences[2].measure, Measure::kAccuracy);
  EXPECT_GT(report.differences[2].mean, 0.0);
  EXPECT_EQ(report.differences[2].verdict, Verdict::kBetter);
  EXPECT_THAT(report.text(0), HasSubstr("accuracy, source outside the segment"));
  EXPECT_THAT(report.text(0), Not(HasSubstr("bits a byte from")));
}

TEST_F(ReportTest, LanesAreCutIntoBlocksWhoseLengthIsSaid) {
  small_.data = Data::kLanes;
  const Report report = of(small_);
  const Difference& one = report.differences.front();
  EXPECT_EQ(one.unit, "block");
  EXPECT_GT(one.block, 0);
  EXPECT_GT(one.units, 4);
  EXPECT_THAT(sentences_of(report.verdict)[1],
              HasSubstr(str(one.units, " blocks of ", one.block, " targets")));
}

TEST_F(ReportTest, BlocksAreTheUnitsOfFewDocuments) {
  small_.seeds = {1, 2, 3};
  small_.documents = 9;
  small_.targets = 128;
  const Report few = of(small_);
  for (const Difference& one : few.differences) {
    EXPECT_EQ(one.unit, "block");
    EXPECT_GT(one.block, 0);
    EXPECT_EQ(one.targets, 9 * 128);
    EXPECT_THAT(one.reason(), HasSubstr("the result is about these documents alone"));
    const Arm& arm = few.comparison.arms[one.arm];
    const Arm& first = few.comparison.arms.front();
    double expected = 0.0;
    for (const std::uint64_t seed : {1, 2, 3}) {
      expected +=
          (arm.find(seed)->find("valid")->loss() - first.find(seed)->find("valid")->loss()) / 3.0;
    }
    EXPECT_NEAR(one.mean, expected, 1e-12);
  }
  EXPECT_EQ(few.differences.front().verdict, Verdict::kBetter);
  EXPECT_THAT(sentences_of(few.verdict)[1], HasSubstr(" targets, 3 seeds)"));
}

TEST_F(ReportTest, TenDocumentsAreUnits) {
  small_.documents = 10;
  const Difference one = of(small_).differences.front();
  EXPECT_EQ(one.unit, "document");
  EXPECT_EQ(one.units, 10);
}

TEST_F(ReportTest, NumbersOfThePageAreThoseOfTheTables) {
  const Report report = of(small_);
  const std::string html = page(report);
  const Json inside = embedded(html, "report");
  EXPECT_EQ(inside, Json::parse(json_text(report.json())));
  const Sheet& differences = sheet_of(report, "differences");
  const Sheet& results = sheet_of(report, "results");
  for (std::size_t i = 0; i < report.differences.size(); ++i) {
    const Json& one = inside["differences"][i];
    EXPECT_EQ(one["difference"], differences.rows[i][2].value);
    EXPECT_EQ(one["low"], differences.rows[i][3].value);
    EXPECT_EQ(one["p_holm"], differences.rows[i][6].value);
    // Losses of the results: the mean of the seeds' means, as the difference.
    const double base = results.rows[0][1].value.get<double>();
    const double arm = results.rows[0][report.differences[i].arm + 1].value.get<double>();
    EXPECT_NEAR(arm - base, one["difference"].get<double>(), 1e-12);
  }
  for (const Sheet& sheet : report.sheets) {
    if (sheet.is_for_programs) continue;
    for (const auto& row : sheet.rows) {
      for (const Cell& cell : row) {
        if (cell.text.find_first_of("<>&\"'") == std::string::npos) {
          EXPECT_THAT(html, HasSubstr('>' + cell.text + "</t"));
        }
      }
    }
  }
}

TEST_F(ReportTest, ChangingOneStoredLossChangesTheReport) {
  test::write_comparison(folder("runs"), small_);
  const Report before = make_report(load({folder("runs")}));
  fs::remove_all(folder("runs") / "xl_cache-seed1");
  test::write_run(folder("runs") / "xl_cache-seed1", small_, small_.arms[1], 1, 0.5);
  const Report after = make_report(load({folder("runs")}));
  const double change = 0.5 / static_cast<double>(12 * 32) / 2.0;
  EXPECT_NEAR(after.differences[0].mean - before.differences[0].mean, change, 1e-7);
  EXPECT_EQ(after.differences[1].mean, before.differences[1].mean);
  EXPECT_NE(page(after), page(before));
}

TEST_F(ReportTest, WrittenTwiceItIsTheSameByteForByte) {
  test::write_comparison(folder("runs"), small_);
  const fs::path first = make_report(load({folder("runs")})).write(folder("first"));
  fs::rename(folder("runs"), folder("moved"));
  static_cast<void>(make_report(load({folder("moved")})).write(folder("second")));
  EXPECT_EQ(first, folder("first") / "index.html");
  const auto files = files_of(folder("first"));
  EXPECT_TRUE(files.contains("results.csv"));
  EXPECT_TRUE(files.contains("differences.csv"));
  EXPECT_TRUE(files.contains("report.tex"));
  EXPECT_TRUE(files.contains("figures/training-loss.vl.json"));
  EXPECT_EQ(files, files_of(folder("second")));
}

TEST_F(ReportTest, NamesOfArmsCannotBreakThePage) {
  small_.arms[1].name = "<b>&\" '</script><script>alert(1)</script> ${x}";
  const Report report = of(small_);
  const std::string html = page(report);
  EXPECT_THAT(html, Not(HasSubstr("<b>")));
  EXPECT_THAT(html, Not(HasSubstr("<script>alert")));
  EXPECT_THAT(html, HasSubstr("&lt;b&gt;&amp;&quot; &#39;&lt;/script&gt;"));
  EXPECT_EQ(embedded(html, "report")["arms"][1]["name"], small_.arms[1].name);
  EXPECT_THAT(write_sheets(report.sheets, Format::kMarkdown), Not(HasSubstr("<b>")));
  EXPECT_THAT(write_sheets(report.sheets, Format::kLatex), HasSubstr("\\$\\{x\\}"));
}

TEST_F(ReportTest, AFileNameThatIsNoUtf8IsShownWithReplacements) {
  test::write_run(folder("none-seed1"), small_, small_.arms[0], 1);
  test::write_run(folder("a\xff z-seed1"), small_, small_.arms[1], 1);
  const Report report = make_report(load({folder("none-seed1"), folder("a\xff z-seed1")}));
  EXPECT_EQ(embedded(page(report), "report")["arms"][1]["name"], "a\xEF\xBF\xBD z");
  EXPECT_THAT(write_sheets(report.sheets, Format::kJson), HasSubstr("a\xEF\xBF\xBD z"));
}

TEST_F(ReportTest, ThePageFetchesNothing) {
  const std::string html = page(of(small_));
  const std::string own = html.substr(0, html.find("id=\"theme\""));
  for (const char* outside : {" src=", " href=", "url(", "@import", "http://", "https://"}) {
    EXPECT_THAT(own, Not(HasSubstr(outside))) << outside;
  }
  EXPECT_THAT(own, HasSubstr("default-src 'none'"));
}

TEST_F(ReportTest, WithoutVegaThePageHasTablesAndSaysHowToGetFigures) {
  const Report report = of(small_);
  const std::string html = page(report, "");
  EXPECT_THAT(html, HasSubstr("id=\"no-figures\""));
  EXPECT_THAT(html, HasSubstr("scripts/setup.sh"));
  EXPECT_THAT(html, HasSubstr("id=\"table-differences\""));
  EXPECT_THAT(html, Not(HasSubstr("class=\"specification\"")));
  EXPECT_EQ(embedded(html, "report"), Json::parse(json_text(report.json())));
  EXPECT_THAT(page(report, "/* vega */"), HasSubstr("<script>\n/* vega */\n</script>"));
}

TEST_F(ReportTest, FiguresNameTheirAxesAndArms) {
  const Report report = of(small_);
  std::vector<std::string> keys;
  for (const Figure& figure : report.figures) {
    keys.push_back(figure.key);
    const std::string spec = figure.spec.dump();
    EXPECT_THAT(spec, HasSubstr("xl_cache")) << figure.key;
    EXPECT_THAT(spec, HasSubstr("\"tooltip\"")) << figure.key;
    EXPECT_EQ(figure.spec["autosize"]["type"], "fit") << figure.key;
    EXPECT_FALSE(figure.spec["data"]["values"].empty()) << figure.key;
    EXPECT_FALSE(figure.caption.empty());
    for (const Json& layer : figure.spec["layer"]) {
      for (const char* axis : {"x", "y"}) {
        const Json channel = layer["encoding"].value(axis, Json());
        if (channel.is_null() || channel.contains("datum")) continue;
        EXPECT_TRUE(channel.contains("title")) << figure.key;
      }
    }
    EXPECT_TRUE(as_file(figure)["config"].is_object());
  }
  EXPECT_THAT(
      keys,
      ElementsAre("difference-valid-loss", "training-loss", "evaluations-valid", "place-valid",
                  "place-valid-difference", "distance-valid", "distance-valid-difference",
                  "frequency-valid", "frequency-valid-difference", "loss-over-state_bytes-valid",
                  "loss-over-evaluation_tokens_per_second-valid", "loss-over-training_flops-valid",
                  "loss-over-evaluation_flops-valid", "loss-over-memory_parameters-valid",
                  "attention-distance-valid", "memory-density-valid", "memory-age-valid",
                  "memory-alpha-valid", "attention-regions-valid",
                  "metric-0.org.example.cache.used_rows"));
}

TEST_F(ReportTest, ValuesOfAFigureAreThoseOfTheTables) {
  const Report report = of(small_);
  const auto figure = std::ranges::find(report.figures, "difference-valid-loss", &Figure::key);
  ASSERT_NE(figure, report.figures.end());
  const Json& values = figure->spec["data"]["values"];
  ASSERT_EQ(values.size(), 2u);
  EXPECT_EQ(values[0]["mean"], sheet_of(report, "differences").rows[0][2].value);
  EXPECT_EQ(values[0]["high"], sheet_of(report, "differences").rows[0][4].value);
  EXPECT_EQ(values[1]["verdict"], "no difference shown");
}

TEST_F(ReportTest, ASweepsFigureComesFirst) {
  Fixture sweep{.arms = {{.name = "none"}}, .seeds = {1}, .documents = 4};
  for (const std::int64_t rows : {8, 64, 512}) {
    sweep.arms.push_back({.name = str("rows=", rows), .shift = -0.1, .rows = rows});
  }
  const Report report = of(sweep);
  EXPECT_EQ(report.figures.front().section, "sweep");
  EXPECT_EQ(report.figures.front().key, "loss-over-setting-valid");
  const Json& values = report.figures.front().spec["data"]["values"];
  ASSERT_EQ(values.size(), 3u);
  EXPECT_EQ(values[1]["x"], 64.0);
  EXPECT_THAT(report.text(80), HasSubstr("One seed: nothing is said of other seeds."));
}

TEST_F(ReportTest, OneArmHasNothingToBeComparedWith) {
  small_.arms.resize(1);
  const Report report = of(small_);
  EXPECT_THAT(sentences_of(report.verdict),
              ElementsAre("One arm, none: there is nothing to compare."));
  EXPECT_THAT(page(report), AllOf(HasSubstr("there is nothing to compare"),
                                  HasSubstr("Of absolute paths only the last name is here")));
  EXPECT_THAT(report.text(80), HasSubstr("valid loss, nats a token"));
}

}  // namespace
}  // namespace mneme::report
