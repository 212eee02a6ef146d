#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "host/analyze/report/chart.hpp"
#include "host/base/file/file.hpp"
#include "tests/base/temporary_folder.hpp"

namespace mneme::analyze {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t times = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    ++times;
  }
  return times;
}

TEST(Svg, WritesShapesAndEscapesText) {
  Svg svg(100.0, 50.0);
  svg.rectangle(1.0, 2.0, 3.0, 4.5, "red");
  svg.line({0.0, 0.0}, {1.0, 2.0}, "blue");
  svg.polyline({{0.0, 1.0}, {2.0, 3.0}}, "green");
  svg.circle({5.0, 6.0}, 2.0, "black");
  svg.text({7.0, 8.0}, "a<b & \"c\"\x01", Anchor::kEnd);
  const std::string text = svg.document();
  EXPECT_THAT(text,
              ::testing::StartsWith("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"100."));
  EXPECT_THAT(text, ::testing::EndsWith("</svg>\n"));
  EXPECT_THAT(text,
              HasSubstr("<rect x=\"1.00\" y=\"2.00\" width=\"3.00\" height=\"4.50\" fill=\"red"));
  EXPECT_THAT(text, HasSubstr("<polyline points=\"0.00,1.00 2.00,3.00\""));
  EXPECT_THAT(text, HasSubstr("text-anchor=\"end\">a&lt;b &amp; &quot;c&quot;\xEF\xBF\xBD</text>"));
  const test::TemporaryFolder folder;
  svg.save(folder / "one.svg");
  EXPECT_EQ(read_file(folder / "one.svg"), text);
}

// Two panels beside each other, with the y axis of the larger one: its largest bar, 4, is 70 pixels
// high, and the other panel's 2 is 35.
TEST(BarChart, SharesOneAxis) {
  const std::string text =
      bar_chart({.title = "t", .x_label = "x", .y_label = "y"},
                {{.title = "left", .values = {1.0, 4.0}, .from = 0.0, .to = 1.0},
                 {.title = "right", .values = {2.0}, .from = 0.0, .to = 1.0}},
                2)
          .document();
  EXPECT_EQ(count(text, "<rect"), 4U);  // background and three bars
  EXPECT_THAT(text, HasSubstr("width=\"65.00\" height=\"70.00\""));
  EXPECT_THAT(text, HasSubstr("width=\"65.00\" height=\"17.50\""));
  EXPECT_THAT(text, HasSubstr("width=\"130.00\" height=\"35.00\""));
  EXPECT_THAT(text, HasSubstr(">left</text>"));
  EXPECT_THAT(text, HasSubstr("x: x; y: y"));
}

TEST(LineChart, HasOneColourAName) {
  const Series a{.name = "a", .points = {{0.0, 1.0}, {2.0, 0.5}}};
  const Series b{.name = "b", .points = {{1.0, 0.25}}};
  const std::string text =
      line_chart({.title = "t", .x_label = "x", .y_label = "y"},
                 {{.title = "one", .series = {a, b}}, {.title = "two", .series = {b}}}, 1)
          .document();
  EXPECT_EQ(count(text, "<polyline"), 3U);
  EXPECT_EQ(count(text, "stroke=\"#4477aa\""), 2U);  // a: legend and line
  EXPECT_EQ(count(text, "stroke=\"#ee6677\""), 3U);  // b: legend and two lines
  EXPECT_EQ(count(text, "<circle"), 4U);
}

// The panel begins at x 44 and y 48 and is 300 by 150 pixels.
TEST(LineChart, HasAnAxisOfDecades) {
  const Series a{.name = "a", .points = {{0.0, 0.01}, {1.0, 1.0}, {2.0, 0.0}, {4.0, 0.1}}};
  const std::string text =
      line_chart({.title = "t", .x_label = "x", .y_label = "y", .y_axis = ChartText::YAxis::kLog},
                 {{.title = "one", .series = {a}}}, 1)
          .document();
  EXPECT_THAT(text, HasSubstr("points=\"44.00,198.00 119.00,48.00 344.00,123.00\""));
  EXPECT_THAT(text, HasSubstr(">0.010</text>"));
}

TEST(LineChart, HasAnAxisFromTheSmallestValue) {
  const Series a{.name = "a", .points = {{0.0, 20.0}, {4.0, 30.0}, {8.0, 25.0}}};
  const std::string text =
      line_chart(
          {.title = "t", .x_label = "x", .y_label = "y", .y_axis = ChartText::YAxis::kFromLeast},
          {{.title = "one", .series = {a}}}, 1)
          .document();
  EXPECT_THAT(text, HasSubstr("points=\"44.00,198.00 194.00,48.00 344.00,123.00\""));
}

// Sixteen names need four lines of a drawing of 388 pixels; the panel moves down by three.
TEST(LineChart, FindsRoomAndColoursForManyNames) {
  LinePanel panel{.title = "one", .series = {}};
  for (int i = 0; i < 16; ++i) {
    panel.series.push_back({.name = "layer " + std::to_string(i), .points = {{0.0, 1.0}}});
  }
  const std::string text =
      line_chart({.title = "t", .x_label = "x", .y_label = "y"}, {panel}, 1).document();
  EXPECT_THAT(text, HasSubstr("hsl(240,70%,45%)"));
  EXPECT_THAT(text, HasSubstr("hsl(0,70%,45%)"));
  EXPECT_THAT(text, HasSubstr("y=\"70.00\""));   // the fourth line of names
  EXPECT_THAT(text, HasSubstr("cy=\"90.00\""));  // the panel's top
}

TEST(Charts, StandWithoutPanelsAndValues) {
  EXPECT_THAT(bar_chart({.title = "empty", .x_label = "", .y_label = ""}, {}, 3).document(),
              HasSubstr(">empty</text>"));
  EXPECT_THAT(line_chart({.title = "empty", .x_label = "", .y_label = ""},
                         {{.title = "p", .series = {}}}, 3)
                  .document(),
              Not(HasSubstr("nan")));
  const std::string zeros =
      ranking_chart({.title = "r", .x_label = "gain", .y_label = ""}, {{"word", 0.0}, {"w", -1.0}})
          .document();
  EXPECT_THAT(zeros, Not(HasSubstr("nan")));
  EXPECT_THAT(zeros, Not(HasSubstr("width=\"-")));
}

// 43 characters, of which the first is left out; each has two bytes.
TEST(RankingChart, ShowsTheEndsOfLongNames) {
  std::string name;
  for (int i = 0; i < 43; ++i) name += i == 1 ? "\xC3\xA4" : "\xC3\xA9";
  const std::string text =
      ranking_chart({.title = "", .x_label = "", .y_label = ""}, {{name, 1.0}}).document();
  EXPECT_THAT(text, HasSubstr(">...\xC3\xA4\xC3\xA9"));
}

}  // namespace
}  // namespace mneme::analyze
