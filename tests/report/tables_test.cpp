#include "host/report/tables/tables.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "host/base/error.hpp"

namespace mneme::report {
namespace {

using ::testing::HasSubstr;

Sheet sample_sheet() {
  return {.key = "sample",
          .title = "A table",
          .headings = {"", "a_b", "with, comma"},
          .rows = {{Cell("loss"), {"-0.5000 +- 0.10", -0.5}, {"-", nullptr}},
                   {Cell("50 % \"x\" | y"), {"3", 3}}},
          .notes = {"One note."}};
}

TEST(Tables, TextFitsTheWidth) {
  const std::string wide = write_sheet(sample_sheet(), Format::kText);
  EXPECT_EQ(wide,
            "A table\n"
            "                          a_b  with, comma\n"
            "loss          -0.5000 +- 0.10            -\n"
            "50 % \"x\" | y                3\n"
            "One note.\n");
  const std::string narrow = write_sheet(sample_sheet(), Format::kText, 32);
  for (std::size_t begin = 0; begin < narrow.size();) {
    const std::size_t end = narrow.find('\n', begin);
    EXPECT_LE(end - begin, 32u) << narrow;
    begin = end + 1;
  }
}

TEST(Tables, CsvHasExactNumbers) {
  EXPECT_EQ(write_sheet(sample_sheet(), Format::kCsv),
            ",a_b,\"with, comma\"\r\nloss,-0.5,\r\n\"50 % \"\"x\"\" | y\",3,\r\n");
}

// What people read in one cell are several columns of data.
TEST(Tables, CsvHasTheRecordsOfATable) {
  Sheet sheet = sample_sheet();
  sheet.records = {.columns = {"arm", "mean", "detectable"},
                   .rows = {{"a,b", 0.5, "inf"}, {"c", nullptr, 2}}};
  EXPECT_EQ(write_sheet(sheet, Format::kCsv), "arm,mean,detectable\r\n\"a,b\",0.5,inf\r\nc,,2\r\n");
}

TEST(Tables, JsonHasExactNumbersAndNulls) {
  const Json json = Json::parse(write_sheet(sample_sheet(), Format::kJson));
  EXPECT_EQ(json["rows"][0], Json::parse(R"(["loss", -0.5, null])"));
  EXPECT_EQ(json["headings"][1], "a_b");
}

TEST(Tables, MarkdownAndLatexEscapeTheirLetters) {
  EXPECT_EQ(write_sheet(sample_sheet(), Format::kMarkdown),
            "### A table\n\n|  | a\\_b | with, comma |\n|---|---:|---:|\n"
            "| loss | -0.5000 +- 0.10 | - |\n| 50 % \"x\" \\| y | 3 |  |\n\nOne note.\n");
  const std::string latex = write_sheet(sample_sheet(), Format::kLatex);
  EXPECT_THAT(latex, HasSubstr("\\begin{tabular}{@{}lrr@{}}"));
  EXPECT_THAT(latex, HasSubstr("& a\\_\\allowbreak b & with, comma \\tabularnewline"));
  EXPECT_THAT(latex, HasSubstr("loss & $-$0.5000 $\\pm$ 0.10 & - \\tabularnewline"));
  EXPECT_THAT(latex, HasSubstr("50 \\% ``x'' \\textbar{} y & 3 &  \\tabularnewline"));
  EXPECT_THAT(latex, HasSubstr("\\caption{A table}\\label{tab:mneme-sample}"));
}

// The end of a line and booktabs' rules take "[" and "*" behind them for arguments.
TEST(Tables, LatexCellsAreNoArguments) {
  const Sheet sheet{.key = "s",
                    .title = "A",
                    .headings = {"[x]", "[y]"},
                    .rows = {{Cell("[0, 1]"), Cell("[2]")}, {Cell("*"), Cell("3")}}};
  EXPECT_THAT(write_sheet(sheet, Format::kLatex),
              HasSubstr("\\toprule\n{}[x] & [y] \\tabularnewline\n\\midrule\n{}[0, 1] & [2] "
                        "\\tabularnewline\n{}* & 3 \\tabularnewline\n"));
}

TEST(Tables, RefusesAnUnknownFormat) {
  EXPECT_EQ(parse_format("latex"), Format::kLatex);
  try {
    static_cast<void>(parse_format("html"));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    EXPECT_THAT(error.what(), HasSubstr("\"markdown\""));
    EXPECT_THAT(error.what(), HasSubstr("got \"html\""));
  }
}

}  // namespace
}  // namespace mneme::report
