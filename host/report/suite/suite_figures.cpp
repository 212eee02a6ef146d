// The figures of a suite whose tasks are points of an axis.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "host/base/text.hpp"
#include "host/figure/charts.hpp"
#include "host/report/suite/suite.hpp"

namespace mneme::report {
namespace {

// Labels of an axis of bytes, with binary units.
constexpr const char* kBytesLabel =
    "datum.value >= 1048576 ? format(datum.value / 1048576, '.3~g') + ' MiB' : "
    "datum.value >= 1024 ? format(datum.value / 1024, '.3~g') + ' KiB' : "
    "format(datum.value, '.3~g') + ' B'";

std::string measure_words(const std::string& measure) {
  if (measure == "loss") return "loss on valid, nats a token";
  return measure == "outside_accuracy" ? "outside accuracy on valid" : "accuracy on valid";
}

// What lies on the x axis.
struct Axis {
  std::string key;    // of the figure: "scale-operations"
  std::string field;  // of the table's cells
  std::string words;  // "bytes of state a lane"
  bool are_bytes = false;
  bool has_ticks = false;  // at the points
};

// {"arm", "x", "mean", "low", "high", "setting"} for each number; low and high are the mean where
// there is one seed.
Json points_of(const Sheet& sheet, const Axis& axis) {
  Json out = Json::array();
  for (std::size_t arm = 1; arm < sheet.headings.size(); ++arm) {
    for (const std::vector<Cell>& row : sheet.rows) {
      const Json& value = row[arm].value;
      if (value.is_null() || !value.contains(axis.field)) continue;
      const Json& mean = value.at("mean");
      out.push_back({{"arm", sheet.headings[arm]},
                     {"x", value.at(axis.field)},
                     {"setting", value.value("setting", Json(row[0].text))},
                     {"mean", mean},
                     {"low", value.value("low", mean)},
                     {"high", value.value("high", mean)}});
    }
  }
  return out;
}

// Whether some line has two points.
bool has_line(const Json& points) {
  for (std::size_t i = 1; i < points.size(); ++i) {
    if (points[i].at("arm") == points[i - 1].at("arm")) return true;
  }
  return false;
}

// Logarithmic, with binary units of bytes.
Json x_channel(const Axis& axis, const Json& points) {
  Json out = figure::axis_channel({.field = "x", .title = axis.words, .format = "~s"});
  out["scale"] = {{"type", "log"}, {"nice", false}, {"padding", 24}};
  if (axis.are_bytes) {
    out["scale"]["base"] = 2;
    out["axis"] = {{"labelExpr", kBytesLabel}};
  }
  if (!axis.has_ticks) return out;
  Json ticks = Json::array();
  for (const Json& point : points) {
    const bool is_near = std::ranges::any_of(ticks, [&](const Json& tick) {
      const double ratio = point.at("x").get<double>() / tick.get<double>();
      return ratio > 0.9 && ratio < 1.1;  // one label for the sizes of a point
    });
    if (!is_near) ticks.push_back(point.at("x"));
  }
  out["axis"]["values"] = std::move(ticks);
  return out;
}

Json spec_of(const Sheet& sheet, const Axis& axis, Json points, const std::string& measure,
             bool has_intervals) {
  figure::Colour names{.field = "arm", .title = "", .legend_width = 330};
  names.names.assign(sheet.headings.begin() + 1, sheet.headings.end());
  const Json colour = figure::colour_channel(names);
  const Json x = x_channel(axis, points);
  const std::string words = measure_words(measure);
  const Json y = figure::axis_channel({.field = "mean", .title = words});
  Json layers = Json::array();
  if (has_intervals) {
    Json low = y;
    low["field"] = "low";
    layers.push_back(
        {{"mark", {{"type", "area"}, {"opacity", 0.2}}},
         {"encoding", {{"x", x}, {"y", low}, {"y2", {{"field", "high"}}}, {"color", colour}}}});
  }
  Json line = {{"x", x}, {"y", y}, {"color", colour}};
  if (names.names.size() > figure::colours().size())
    line["strokeDash"] = figure::repeated_channel(names, figure::dashes());
  layers.push_back({{"mark", {{"type", "line"}}}, {"encoding", std::move(line)}});
  const Json tips =
      Json::array({figure::tip("arm", "memory"), figure::tip("setting", "setting"),
                   figure::tip("x", axis.words, ",.5~g"), figure::tip("mean", words, ".4f"),
                   figure::tip("low", "95 % from", ".4f"), figure::tip("high", "95 % to", ".4f")});
  layers.push_back({{"mark", {{"type", "point"}, {"filled", true}, {"size", 60}, {"opacity", 1}}},
                    {"encoding", {{"x", x}, {"y", y}, {"color", colour}, {"tooltip", tips}}}});
  return figure::layered(std::move(points), std::move(layers), 320, "fit");
}

}  // namespace

std::vector<figure::Figure> suite_figures(const SuiteRecord& record, const Sheet& sheet) {
  std::vector<Axis> axes;
  const bool is_scale = record.kind == SuiteKind::kScale;
  if (record.kind == SuiteKind::kCapacity)
    axes = {{"capacity", "bytes", "bytes of state a lane", true, true}};
  if (is_scale) {
    axes = {{"scale-operations", "operations", "operations (FLOPs) of the training"},
            {"scale-bytes", "bytes", "bytes of parameters and state", true, true},
            {"scale-seconds", "seconds", "seconds of the training"}};
  }
  std::vector<figure::Figure> out;
  for (const Axis& axis : axes) {
    Json points = points_of(sheet, axis);
    if (!has_line(points)) continue;
    const bool has_intervals = std::ranges::any_of(
        points, [](const Json& point) { return point.at("low") != point.at("high"); });
    out.push_back({.key = axis.key,
                   .section = "sweep",
                   .title = is_scale ? "Loss over " + axis.words : sheet.title,
                   .caption = has_intervals ? "Lines are means over seeds, bands 95 % intervals of "
                                              "the mean over seeds."
                                            : "One seed.",
                   .spec = spec_of(sheet, axis, std::move(points), record.tasks.front().measure,
                                   has_intervals)});
  }
  return out;
}

}  // namespace mneme::report
