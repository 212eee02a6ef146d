// What all figures have in common: scales of arms, lines with bands.
#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "host/report/figures/figure.hpp"

namespace mneme::report {
namespace {

constexpr std::array kShapes = {"circle",        "square", "diamond",       "triangle-up",
                                "triangle-down", "cross",  "triangle-right"};

constexpr int kLegendWidth = 330;  // pixels: what a phone has

// How many names fit side by side on a phone.
std::int64_t legend_columns(const Comparison& comparison) {
  std::size_t longest = 1;
  for (const Arm& arm : comparison.arms) longest = std::max(longest, text_width(arm.name));
  const auto width = static_cast<std::int64_t>(longest) * 7 + 32;
  return std::clamp<std::int64_t>(kLegendWidth / width, 1, 4);
}

Json domain_of(const Comparison& comparison) {
  Json names = Json::array();
  for (const Arm& arm : comparison.arms) names.push_back(arm.name);
  return names;
}

Json channel_of_arms(const Comparison& comparison, Json range) {
  return {{"field", "arm"},
          {"type", "nominal"},
          {"scale", {{"domain", domain_of(comparison)}, {"range", std::move(range)}}},
          {"legend",
           {{"title", nullptr},
            {"orient", "top"},
            {"columns", legend_columns(comparison)},
            {"symbolOpacity", 1}}}};  // not that of the bands
}

}  // namespace

Json layered(Json values, Json layers, int height) {
  return {{"width", "container"},
          {"height", height},
          {"autosize", {{"type", "fit"}, {"contains", "padding"}}},
          {"data", {{"values", std::move(values)}}},
          {"layer", std::move(layers)}};
}

Json quantitative(const Axis& axis) {
  Json out = {{"field", axis.field},
              {"type", "quantitative"},
              {"title", axis.title},
              {"scale", {{"zero", axis.is_zero_based}, {"nice", true}}}};
  if (axis.format != nullptr) out["axis"] = {{"format", axis.format}};
  return out;
}

Json colour_of_arms(const Comparison& comparison) {
  Json range = Json::array();
  for (std::size_t i = 0; i < comparison.arms.size(); ++i) {
    range.push_back(figure::colours()[i % figure::colours().size()]);
  }
  return channel_of_arms(comparison, std::move(range));
}

Json dash_of_arms(const Comparison& comparison) {
  constexpr std::array kDashes = {std::pair(1, 0), std::pair(6, 3), std::pair(2, 2),
                                  std::pair(10, 3)};
  Json range = Json::array();
  for (std::size_t i = 0; i < comparison.arms.size(); ++i) {
    const auto [on, off] = kDashes[(i / figure::colours().size()) % kDashes.size()];
    range.push_back({on, off});
  }
  return channel_of_arms(comparison, std::move(range));
}

Json shape_of_arms(const Comparison& comparison) {
  Json range = Json::array();
  for (std::size_t i = 0; i < comparison.arms.size(); ++i) {
    range.push_back(kShapes[(i + i / figure::colours().size()) % kShapes.size()]);
  }
  return channel_of_arms(comparison, std::move(range));
}

Json tip(const char* field, const std::string& title, const char* format) {
  Json out = {{"field", field}, {"title", title}};
  if (format != nullptr) {
    out["type"] = "quantitative";
    out["format"] = format;
  }
  return out;
}

std::optional<Band> band_of(const std::vector<double>& all) {
  const Spread of = spread(all);
  if (of.count == 0) return std::nullopt;
  Band out{.mean = of.mean, .low = of.mean, .high = of.mean};
  for (const double value : all) {
    if (std::isnan(value)) continue;
    out.low = std::min(out.low, value);
    out.high = std::max(out.high, value);
  }
  return out;
}

Json line_layers(const Comparison& comparison, Json x, Json y, bool has_points,
                 const Json& tooltip) {
  x["field"] = "x";
  y["field"] = "mean";
  Json colour = colour_of_arms(comparison);
  Json encoding = {{"x", x}, {"y", y}, {"color", colour}};
  if (comparison.arms.size() > figure::colours().size())
    encoding["strokeDash"] = dash_of_arms(comparison);
  Json layers = Json::array();
  if (comparison.seeds.size() > 1) {
    Json low = y;
    low["field"] = "low";
    layers.push_back(
        {{"mark", {{"type", "area"}, {"opacity", 0.2}}},
         {"encoding", {{"x", x}, {"y", low}, {"y2", {{"field", "high"}}}, {"color", colour}}}});
  }
  layers.push_back({{"mark", {{"type", "line"}, {"clip", false}}}, {"encoding", encoding}});
  // Points carry the tooltip: that of a line is the one of its first point.
  layers.push_back({{"mark",
                     {{"type", "point"},
                      {"filled", true},
                      {"size", has_points ? 36 : 90},
                      {"opacity", has_points ? 1 : 0}}},
                    {"encoding", {{"x", x}, {"y", y}, {"color", colour}, {"tooltip", tooltip}}}});
  return layers;
}

std::string band_words(const Comparison& comparison) {
  if (comparison.seeds.size() < 2) return "One seed.";
  return str("Lines are means of ", comparison.seeds.size(),
             " seeds, bands reach from the lowest to the highest.");
}

std::vector<Figure> figures(const Comparison& comparison,
                            const std::vector<Difference>& differences) {
  std::vector<Figure> out;
  add_cost_figures(comparison, true, out);
  add_difference_figures(comparison, differences, out);
  add_curve_figures(comparison, out);
  add_position_figures(comparison, out);
  add_cost_figures(comparison, false, out);
  add_probe_figures(comparison, out);
  add_diagnostic_figures(comparison, out);
  return out;
}

}  // namespace mneme::report
