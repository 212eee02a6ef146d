// Tables of a paper.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "host/report/latex/paper.hpp"
#include "tests/report/report_folders.hpp"

namespace mneme::report {
namespace {

using test::Data;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class Latex : public test::ReportFolders {};

TEST(LatexText, HasTheSignsOfAPaper) {
  EXPECT_EQ(latex_text("x 1.02 +- 0.10"), "$\\times$1.02 $\\pm$ 0.10");
  EXPECT_EQ(latex_text("max 3, x y"), "max 3, x y");
  EXPECT_EQ(latex_text("-0.5 [-0.6, -0.4] a-1 --"), "$-$0.5 [$-$0.6, $-$0.4] a-\\allowbreak 1 --");
  EXPECT_EQ(latex_text("a \"word\" and \"b\""), "a ``word'' and ``b''");
  EXPECT_EQ(latex_text("my_memory,rows=64"),
            "my\\_\\allowbreak memory,\\allowbreak rows=\\allowbreak 64");
  EXPECT_EQ(latex_text("1,234.5 %"), "1,234.5 \\%");
  EXPECT_EQ(latex_text("compare --equal"), "compare -{}-equal");
  EXPECT_EQ(latex_text("\\~^<>|&$#{}"),
            "\\textbackslash{}\\textasciitilde{}\\textasciicircum{}\\textless{}\\textgreater{}"
            "\\textbar{}\\&\\$\\#\\allowbreak \\{\\}");
}

TEST(LatexText, WidthsAreThoseOfTheFont) {
  EXPECT_NEAR(latex_width("0123456789"), 42.5, 0.6);  // cmr8: 4.25 points a digit
  EXPECT_GT(latex_width("WWWW"), 2.0 * latex_width("iiii"));
  EXPECT_NEAR(latex_width("\xC3\xA9"), latex_width("="), 0.1);  // one letter
}

TEST_F(Latex, OneRowAnArmWithTheBestInBold) {
  const Comparison comparison = comparison_of(small_);
  const LatexTable table = paper_table(comparison, differences(comparison), "valid");
  EXPECT_THAT(table.headings,
              ElementsAre("Memory", "Perplexity", "Difference [95 %]", "p", "Bytes", "MFLOPs"));
  ASSERT_EQ(table.rows.size(), 3u);
  EXPECT_EQ(table.rows[0][2].text, "--");
  EXPECT_TRUE(table.rows[1][1].is_bold);
  EXPECT_FALSE(table.rows[0][1].is_bold || table.rows[2][1].is_bold);
  EXPECT_THAT(table.rows[1][1].text, HasSubstr(" +- "));
  EXPECT_THAT(table.rows[1][2].text, ::testing::MatchesRegex("-0\\.[0-9]{3} \\[-0\\.[0-9]{3}, "
                                                             "-0\\.[0-9]{3}\\]"));
  EXPECT_THAT(table.caption, HasSubstr("Bold: the best mean."));
  EXPECT_THAT(table.caption, HasSubstr("Intervals are over 12 documents, 2 seeds."));
  EXPECT_EQ(table.label, "mneme-valid");
}

TEST_F(Latex, TasksHaveAccuracy) {
  small_.data = Data::kSequence;
  const Comparison comparison = comparison_of(small_);
  const LatexTable table = paper_table(comparison, differences(comparison), "valid");
  EXPECT_EQ(table.headings[1], "Accuracy");
  EXPECT_TRUE(table.rows[1][1].is_bold);
  EXPECT_THAT(table.rows[1][2].text, ::testing::StartsWith("+0."));
}

// The columns of text give way, whatever names arms have; numbers are never broken.
TEST(LatexTables, AreNoWiderThanALine) {
  LatexTable table{.label = "t",
                   .caption = "T",
                   .headings = {"Memory", "Measure", "A", "B"},
                   .is_number = {false, false, true, true},
                   .rows = {{{std::string(120, 'w')},
                             {"valid_loss_of_a_long_name"},
                             {"+0.123 [+0.100, +0.150]"},
                             {"12,345 +- 678"}}}};
  const std::string text = write_latex(table);
  double columns = 0.0;
  for (std::size_t at = text.find("p{"); at != text.npos; at = text.find("p{", at + 1))
    columns += std::stod(text.substr(at + 2));
  EXPECT_GT(columns, 0.0);
  const double numbers = latex_width("+0.123 [+0.100, +0.150]") + latex_width("12,345 +- 678");
  EXPECT_LE(columns + numbers + 18.0, 345.0);
  EXPECT_THAT(text, HasSubstr("w\\allowbreak w"));
  EXPECT_THAT(text, HasSubstr("& +0.123 [+0.100, +0.150] & 12,345 $\\pm$ 678 \\tabularnewline"));
}

TEST(LatexTables, GoOnOnTheNextPage) {
  LatexTable table{.label = "t", .caption = "T", .headings = {"A"}, .is_number = {false}};
  for (int i = 0; i < 100; ++i) table.rows.push_back({{str("row", i)}});
  table.notes = {"A note."};
  const std::string text = write_latex(table);
  std::size_t floats = 0;
  for (std::size_t at = text.find("\\begin{table}"); at != text.npos;
       at = text.find("\\begin{table}", at + 1))
    ++floats;
  EXPECT_EQ(floats, 3u);
  EXPECT_EQ(text.find("\\label"), text.rfind("\\label")) << "one label";
  EXPECT_THAT(text, HasSubstr("\\caption{T (continued)}"));
  EXPECT_LT(text.find("row99"), text.find("A note."));
}

}  // namespace
}  // namespace mneme::report
