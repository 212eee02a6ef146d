// The specifications, and what Vega-Lite draws of them: the latter where .venv has
// vl-convert-python.
#include "host/figure/charts.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "host/base/file/file.hpp"
#include "host/figure/figure.hpp"
#include "tests/base/temporary_folder.hpp"

namespace mneme::figure {
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

std::string output_of(const std::string& command) {
  FILE* const pipe = ::popen(command.c_str(), "r");
  std::array<char, 4096> piece{};
  std::string text;
  for (std::size_t n = 0; (n = std::fread(piece.data(), 1, piece.size(), pipe)) > 0;) {
    text.append(piece.data(), n);
  }
  return ::pclose(pipe) == 0 ? text : "failed: " + text;
}

bool has_renderer() {
  static const bool has = output_of(MNEME_PYTHON " -c 'import vl_convert' 2>&1").empty();
  return has;
}

// The figure as SVG, drawn from its file.
std::string drawn(const Json& spec) {
  const test::TemporaryFolder folder;
  save({.key = "figure", .title = "The title", .caption = "A caption", .spec = spec},
       folder.path());
  return output_of(MNEME_PYTHON
                   " -c 'import sys, vl_convert; "
                   "print(vl_convert.vegalite_to_svg(open(sys.argv[1]).read()))' '" +
                   (folder / "figure.vl.json").string() + "' 2>&1");
}

// Two memories, two panels of two points each.
Chart two_memories() {
  Chart chart{.values = Json::array(),
              .x = {.field = "x", .title = "age, updates"},
              .y = {.field = "y", .title = "share", .scale = Axis::Scale::kFromZero},
              .colour = {.field = "memory", .title = "memory", .names = {"a", "b"}},
              .panels = {.field = "panel", .names = {"layer 0", "layer 1"}, .columns = 2},
              .tips = {{"memory", "memory"}, {"y", "share", ".3f"}}};
  for (const char* panel : {"layer 0", "layer 1"}) {
    for (const char* memory : {"a", "b"}) {
      for (const double x : {0.0, 1.0}) {
        chart.values.push_back(
            {{"panel", panel}, {"memory", memory}, {"x", x}, {"y", 0.25 + 0.5 * x}});
      }
    }
  }
  return chart;
}

TEST(Lines, HaveOneColourANameAndAPanelATitle) {
  const Json spec = lines(two_memories());
  EXPECT_EQ(spec.at("facet").at("sort"), Json({"layer 0", "layer 1"}));
  const Json& line = spec.at("spec").at("layer").at(0).at("encoding");
  EXPECT_EQ(line.at("color").at("scale").at("domain"), Json({"a", "b"}));
  EXPECT_EQ(line.at("color").at("scale").at("range"), Json({"#0072B2", "#E69F00"}));
  EXPECT_EQ(line.at("color").at("legend").at("title"), "memory");
  EXPECT_EQ(line.at("x").at("title"), "age, updates");
  EXPECT_EQ(line.at("y").at("scale").at("zero"), true);
  const Json& points = spec.at("spec").at("layer").at(1);
  EXPECT_EQ(points.at("mark").at("opacity"), 1);
  EXPECT_EQ(
      points.at("encoding").at("tooltip").at(1),
      Json({{"field", "y"}, {"title", "share"}, {"type", "quantitative"}, {"format", ".3f"}}));
}

TEST(Lines, AreAsWideAsTheirPlaceWithoutPanels) {
  Chart chart = two_memories();
  chart.panels.names = {"layer 0"};
  const Json spec = lines(chart);
  EXPECT_EQ(spec.at("width"), "container");
  EXPECT_FALSE(spec.contains("facet"));
  EXPECT_EQ(as_file({.key = "k", .title = "t", .caption = "c", .spec = spec}).at("width"), 640);
}

TEST(Lines, LeaveOutWhatHasNoDecade) {
  Chart chart = two_memories();
  chart.y.scale = Axis::Scale::kLog;
  chart.values.at(0)["y"] = 0.0;
  const Json spec = lines(chart);
  EXPECT_EQ(spec.at("data").at("values").size(), 7U);
  EXPECT_EQ(spec.at("spec").at("layer").at(0).at("encoding").at("y").at("scale").at("type"), "log");
}

TEST(Lines, BeginAtTheLeastValueWhereAsked) {
  Chart chart = two_memories();
  chart.y.scale = Axis::Scale::kFromLeast;
  const Json spec = lines(chart);
  EXPECT_EQ(spec.at("spec").at("layer").at(0).at("encoding").at("y").at("scale").at("zero"), false);
}

TEST(Lines, TellManyNamesApartByDashes) {
  Chart chart = two_memories();
  chart.colour.names.clear();
  for (int i = 0; i < 16; ++i) chart.colour.names.push_back(str("memory ", i));
  const Json spec = lines(chart);
  const Json& line = spec.at("spec").at("layer").at(0).at("encoding");
  EXPECT_EQ(line.at("color").at("scale").at("range").at(0),
            line.at("color").at("scale").at("range").at(7));
  EXPECT_NE(line.at("strokeDash").at("scale").at("range").at(0),
            line.at("strokeDash").at("scale").at("range").at(7));
  const Json& shape = spec.at("spec").at("layer").at(1).at("encoding").at("shape").at("scale");
  EXPECT_EQ(shape.at("range").at(0), "circle");
  EXPECT_EQ(shape.at("range").at(7), "square");
  EXPECT_EQ(line.at("color").at("legend").at("columns"), 6);
}

TEST(Lines, MayHaveBands) {
  Chart chart = two_memories();
  chart.low = "from";
  chart.high = "to";
  const Json layers = lines(chart).at("spec").at("layer");
  ASSERT_EQ(layers.size(), 3U);
  const Json& band = layers.at(0).at("encoding");
  EXPECT_EQ(layers.at(0).at("mark").at("type"), "area");
  EXPECT_EQ(band.at("y").at("field"), "from");
  EXPECT_EQ(band.at("y").at("title"), "share");
  EXPECT_EQ(band.at("y2").at("field"), "to");
  EXPECT_EQ(layers.at(1).at("encoding").at("y").at("field"), "y");
}

TEST(Lines, OfManyPointsHaveNoDots) {
  Chart chart = two_memories();
  for (int i = 0; i < 50; ++i) {
    chart.values.push_back({{"panel", "layer 0"}, {"memory", "a"}, {"x", i}, {"y", 0.5}});
  }
  EXPECT_EQ(lines(chart).at("spec").at("layer").at(1).at("mark").at("opacity"), 0);
}

TEST(Lines, OfOrderedNamesGoFromDarkToLight) {
  Chart chart = two_memories();
  chart.colour.is_ordered = true;
  EXPECT_EQ(
      lines(chart).at("spec").at("layer").at(0).at("encoding").at("color").at("scale").at("range"),
      Json({"#0072B2", "#E69F00"}));
  for (int i = 2; i < 16; ++i) chart.colour.names.push_back(str(i));
  const Json spec = lines(chart);
  const Json& colour = spec.at("spec").at("layer").at(0).at("encoding").at("color");
  EXPECT_EQ(colour.at("type"), "ordinal");
  EXPECT_EQ(colour.at("scale").at("scheme").at("name"), "viridis");
}

Chart histogram(const std::vector<std::string>& memories) {
  Chart chart{.values = Json::array(),
              .x = {.field = "from", .title = "place"},
              .y = {.field = "mass", .title = "share", .scale = Axis::Scale::kFromZero},
              .colour = {.field = "memory", .title = "memory", .names = memories},
              .panels = {.field = "panel", .names = {"head 0", "head 1"}, .columns = 2}};
  for (const std::string& memory : memories) {
    for (const char* panel : {"head 0", "head 1"}) {
      chart.values.push_back(
          {{"memory", memory}, {"panel", panel}, {"from", 0.0}, {"to", 0.5}, {"mass", 0.25}});
      chart.values.push_back(
          {{"memory", memory}, {"panel", panel}, {"from", 0.5}, {"to", 1.0}, {"mass", 0.75}});
    }
  }
  return chart;
}

TEST(Bars, FillTheirIntervals) {
  const Json spec = bars(histogram({"a"}), "to");
  const Json& layer = spec.at("spec").at("layer").at(0);
  EXPECT_EQ(layer.at("mark").at("type"), "bar");
  EXPECT_EQ(layer.at("encoding").at("x").at("bin"), "binned");
  EXPECT_EQ(layer.at("encoding").at("x2").at("field"), "to");
  EXPECT_FALSE(layer.at("encoding").contains("color"));
}

TEST(Bars, OfSeveralMemoriesAreStepsThroughTheMiddles) {
  const Json spec = bars(histogram({"a", "b"}), "to");
  EXPECT_EQ(spec.at("spec").at("layer").at(0).at("mark").at("interpolate"), "step");
  EXPECT_EQ(spec.at("data").at("values").at(1).at("middle"), 0.75);
}

TEST(Ranking, KeepsItsOrderAndEveryBar) {
  Chart chart{.values = Json::array({{{"name", "the"}, {"share", 0.5}},
                                     {{"name", "the"}, {"share", 0.25}},
                                     {{"name", "a"}, {"share", 0.0}}}),
              .x = {.field = "share", .title = "share"},
              .y = {.field = "name", .title = ""}};
  const Json spec = ranking(chart, "name");
  EXPECT_EQ(spec.at("data").at("values").at(1).at("name"), "the #2");
  EXPECT_TRUE(spec.at("layer").at(0).at("encoding").at("y").at("sort").is_null());
}

// --- Drawn by Vega-Lite ---

TEST(DrawnCharts, HaveTitlesTicksLegendAndMarks) {
  if (!has_renderer()) GTEST_SKIP() << "no vl-convert-python in .venv";
  const std::string svg = drawn(lines(two_memories()));
  for (const char* text :
       {">The title</text>", ">layer 0</text>", ">layer 1</text>", ">age, updates</text>",
        ">share</text>", ">memory</text>", ">a</text>", ">b</text>", ">0.5</text>"}) {
    EXPECT_THAT(svg, HasSubstr(text));
  }
  EXPECT_EQ(count(svg, "aria-roledescription=\"line mark\""), 4U);
  EXPECT_EQ(count(svg, "aria-roledescription=\"point\""), 8U);
  EXPECT_THAT(svg, Not(HasSubstr("NaN")));
}

TEST(DrawnCharts, HaveABarAnInterval) {
  if (!has_renderer()) GTEST_SKIP() << "no vl-convert-python in .venv";
  EXPECT_EQ(count(drawn(bars(histogram({"a"}), "to")), "aria-roledescription=\"bar\""), 4U);
}

TEST(DrawnCharts, StandWithoutValues) {
  if (!has_renderer()) GTEST_SKIP() << "no vl-convert-python in .venv";
  Chart chart = two_memories();
  chart.values = Json::array();
  chart.panels.names.clear();
  const std::string svg = drawn(lines(chart));
  EXPECT_THAT(svg, HasSubstr(">The title</text>"));
  EXPECT_THAT(svg, Not(HasSubstr("NaN")));
}

TEST(DrawnCharts, ShowLongAndStrangeNamesOfARanking) {
  if (!has_renderer()) GTEST_SKIP() << "no vl-convert-python in .venv";
  Chart chart{.values = Json::array({{{"name", "a<b & \"c\""}, {"share", 1.0}},
                                     {{"name", std::string(200, 'x')}, {"share", -0.5}}}),
              .x = {.field = "share", .title = "gain, nats"},
              .y = {.field = "name", .title = ""}};
  const std::string svg = drawn(ranking(chart, "name"));
  EXPECT_THAT(svg, HasSubstr("a&lt;b &amp; "));
  EXPECT_THAT(svg, HasSubstr("xxx\xE2\x80\xA6</text>"));  // cut off with an ellipsis
  EXPECT_EQ(count(svg, "aria-roledescription=\"bar\""), 2U);
}

}  // namespace
}  // namespace mneme::figure
