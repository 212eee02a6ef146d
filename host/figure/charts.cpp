#include "host/figure/charts.hpp"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "host/figure/figure.hpp"

namespace mneme::figure {
namespace {

constexpr int kHeight = 280;          // of a single chart, pixels
constexpr int kPanelHeight = 180;     // of one of several panels
constexpr int kPanelsWidth = 620;     // of all panels of a row
constexpr std::size_t kMaxDots = 40;  // points of a line that are drawn as dots

}  // namespace

Json axis_channel(const Axis& axis) {
  Json out = {{"field", axis.field}, {"title", axis.title}};
  if (!axis.words.empty()) {
    out["type"] = "ordinal";
    out["sort"] = axis.words;
    out["axis"] = {{"labelAngle", 0}};
    return out;
  }
  out["type"] = "quantitative";
  if (axis.scale == Axis::Scale::kLog) {
    out["scale"] = {{"type", "log"}};
    out["axis"] = {{"format", "~g"}};
  } else {
    out["scale"] = {{"zero", axis.scale == Axis::Scale::kFromZero}, {"nice", true}};
  }
  if (axis.is_whole) out["axis"] = {{"format", "d"}, {"tickMinStep", 1}};
  if (!axis.format.empty()) out["axis"]["format"] = axis.format;
  return out;
}

namespace {

// How many names of a legend fit side by side.
std::int64_t legend_columns(const Colour& colour) {
  constexpr int kLeastWidth = 75;  // of a name and its symbol, pixels
  std::size_t longest = 1;
  for (const std::string& name : colour.names) longest = std::max(longest, text_width(name));
  const auto width = static_cast<std::int64_t>(longest) * 7 + 32;
  return std::clamp<std::int64_t>(colour.legend_width / width, 1,
                                  colour.legend_width / kLeastWidth);
}

Json channel_of_names(const Colour& colour, Json scale) {
  scale["domain"] = colour.names;
  return {{"field", colour.field},
          {"type", colour.is_ordered ? "ordinal" : "nominal"},
          {"scale", std::move(scale)},
          {"legend",
           {{"title", colour.title.empty() ? Json(nullptr) : Json(colour.title)},
            {"orient", "top"},
            {"columns", legend_columns(colour)},
            {"symbolOpacity", 1}}}};  // not that of bands, or of points for tooltips
}

}  // namespace

Json range_channel(const Colour& colour, Json range) {
  return channel_of_names(colour, {{"range", std::move(range)}});
}

Json colour_channel(const Colour& colour) {
  // Neighbours of a scale are hard to tell apart, so few names have colours of their own.
  if (colour.is_ordered && colour.names.size() > colours().size()) {
    return channel_of_names(colour, {{"scheme", {{"name", "viridis"}, {"extent", {0.0, 0.85}}}}});
  }
  Json range = Json::array();
  for (std::size_t i = 0; i < colour.names.size(); ++i) {
    range.push_back(colours()[i % colours().size()]);
  }
  return range_channel(colour, std::move(range));
}

Json repeated_channel(const Colour& colour, const std::vector<Json>& kinds) {
  Json range = Json::array();
  for (std::size_t i = 0; i < colour.names.size(); ++i) {
    range.push_back(kinds[(i / colours().size()) % kinds.size()]);
  }
  return range_channel(colour, std::move(range));
}

Json tip(const std::string& field, const std::string& title, const std::string& format) {
  Json out = {{"field", field}, {"title", title}};
  if (!format.empty()) {
    out["type"] = "quantitative";
    out["format"] = format;
  }
  return out;
}

Json layered(Json values, Json layers, Json height, const char* fit) {
  return {{"width", "container"},
          {"height", std::move(height)},
          {"autosize", {{"type", fit}, {"contains", "padding"}}},
          {"data", {{"values", std::move(values)}}},
          {"layer", std::move(layers)}};
}

namespace {

Json tooltip(const std::vector<Tip>& tips) {
  Json out = Json::array();
  for (const Tip& one : tips) out.push_back(tip(one.field, one.title, one.format));
  return out;
}

bool has_panels(const Panels& panels) { return panels.names.size() > 1; }

// Puts the layers into one chart or into panels. The heights are those of the area of the marks:
// title and legend come on top.
Json arranged(const Chart& chart, Json layers, Json height, Json panel_height) {
  if (!has_panels(chart.panels)) {
    return layered(chart.values, std::move(layers), std::move(height), "fit-x");
  }
  const std::size_t columns =
      std::clamp<std::size_t>(std::min(chart.panels.columns, chart.panels.names.size()), 1, 8);
  const int width = std::max(120, kPanelsWidth / static_cast<int>(columns) - 20);
  return {{"data", {{"values", chart.values}}},
          {"facet",
           {{"field", chart.panels.field},
            {"type", "nominal"},
            {"title", nullptr},
            {"sort", chart.panels.names}}},
          {"columns", columns},
          {"spec",
           {{"width", width}, {"height", std::move(panel_height)}, {"layer", std::move(layers)}}}};
}

std::size_t longest_line(const Chart& chart) {
  std::map<std::pair<std::string, std::string>, std::size_t> counts;
  std::size_t most = 0;
  for (const Json& one : chart.values) {
    const auto text = [&](const std::string& field) {
      return one.contains(field) ? one.at(field).dump() : std::string();
    };
    most = std::max(most, ++counts[{text(chart.colour.field), text(chart.panels.field)}]);
  }
  return most;
}

Json encoding_of(const Chart& chart) {
  Json encoding = {{"x", axis_channel(chart.x)}, {"y", axis_channel(chart.y)}};
  if (!chart.colour.names.empty()) encoding["color"] = colour_channel(chart.colour);
  return encoding;
}

// Lines and, for tooltips, points, which are invisible where they are many.
Json line_layers(const Chart& chart, const char* interpolate, bool has_dots) {
  Json encoding = encoding_of(chart);
  Json line = encoding;
  if (chart.colour.names.size() > colours().size() && !chart.colour.is_ordered) {
    line["strokeDash"] = repeated_channel(chart.colour, dashes());
    encoding["shape"] =
        repeated_channel(chart.colour, {"circle", "square", "triangle-up", "diamond"});
  }
  encoding["tooltip"] = tooltip(chart.tips);
  Json mark = {{"type", "line"}, {"interpolate", interpolate}};
  Json dots = {{"type", "point"}, {"filled", true}, {"size", 36}, {"opacity", has_dots ? 1 : 0}};
  if (!has_dots) dots["size"] = 90;
  if (chart.colour.names.empty()) mark["color"] = dots["color"] = colours().front();
  Json layers = Json::array();
  if (!chart.low.empty()) {
    Json band = encoding_of(chart);
    band["y"]["field"] = chart.low;
    band["y2"] = {{"field", chart.high}};
    layers.push_back(
        {{"mark", {{"type", "area"}, {"opacity", 0.2}}}, {"encoding", std::move(band)}});
  }
  layers.push_back({{"mark", std::move(mark)}, {"encoding", std::move(line)}});
  layers.push_back({{"mark", std::move(dots)}, {"encoding", std::move(encoding)}});
  return layers;
}

}  // namespace

Json lines(const Chart& given) {
  Chart chart = given;
  if (chart.y.scale == Axis::Scale::kLog) {  // a decade below 0 does not exist
    Json positive = Json::array();
    for (const Json& one : chart.values) {
      if (one.at(chart.y.field).get<double>() > 0.0) positive.push_back(one);
    }
    chart.values = std::move(positive);
  }
  return arranged(chart, line_layers(chart, "linear", longest_line(chart) <= kMaxDots), kHeight,
                  kPanelHeight);
}

Json bars(const Chart& chart, const std::string& x_end) {
  if (chart.colour.names.size() > 1) {
    Chart steps = chart;
    for (Json& one : steps.values) {
      one["middle"] = 0.5 * (one.at(chart.x.field).get<double>() + one.at(x_end).get<double>());
    }
    steps.x.field = "middle";
    return arranged(steps, line_layers(steps, "step", false), kHeight, kPanelHeight);
  }
  Chart plain = chart;
  plain.colour = {};
  Json encoding = encoding_of(plain);
  encoding["x"]["bin"] = "binned";
  encoding["x"]["scale"] = {{"nice", false}, {"zero", false}};
  encoding["x2"] = {{"field", x_end}};
  encoding["tooltip"] = tooltip(chart.tips);
  return arranged(plain,
                  Json::array({{{"mark", {{"type", "bar"}, {"binSpacing", 0}}},
                                {"encoding", std::move(encoding)}}}),
                  kHeight, kPanelHeight);
}

Json ranking(const Chart& chart, const std::string& name) {
  Chart unique = chart;
  std::map<std::string, int> seen;
  for (Json& one : unique.values) {
    const std::string panel =
        one.contains(chart.panels.field) ? one.at(chart.panels.field).dump() : "";
    const auto text = one.at(name).get<std::string>();
    const int count = ++seen[panel + '\n' + text];
    if (count > 1) one[name] = str(text, " #", count);
  }
  Json encoding = {{"x", axis_channel(chart.x)},
                   {"y",
                    {{"field", name},
                     {"type", "nominal"},
                     {"sort", nullptr},
                     {"title", chart.y.title.empty() ? Json(nullptr) : Json(chart.y.title)},
                     {"axis", {{"labelLimit", 320}, {"labelOverlap", false}, {"ticks", false}}}}},
                   {"tooltip", tooltip(chart.tips)}};
  Json out = arranged(
      unique, Json::array({{{"mark", {{"type", "bar"}}}, {"encoding", std::move(encoding)}}}),
      {{"step", 22}}, {{"step", 22}});
  if (has_panels(chart.panels)) out["resolve"] = {{"scale", {{"y", "independent"}}}};
  return out;
}

}  // namespace mneme::figure
