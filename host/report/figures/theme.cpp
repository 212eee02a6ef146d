// What all figures have in common: scales of arms, lines with bands.
#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "host/base/utf8.hpp"
#include "host/report/figures/figure.hpp"
#include "host/report/setup/shares.hpp"

namespace mneme::report {
namespace {

constexpr std::array kShapes = {"circle",        "square", "diamond",       "triangle-up",
                                "triangle-down", "cross",  "triangle-right"};

// The arms, with a legend that fits on a phone.
figure::Colour names_of_arms(const Comparison& comparison) {
  figure::Colour out{.field = "arm", .title = "", .legend_width = 330};
  for (const Arm& arm : comparison.arms) out.names.push_back(arm.name);
  return out;
}

}  // namespace

Json layered(Json values, Json layers, int height) {
  return figure::layered(std::move(values), std::move(layers), height, "fit");
}

Json colour_of_arms(const Comparison& comparison) {
  return figure::colour_channel(names_of_arms(comparison));
}

Json dash_of_arms(const Comparison& comparison) {
  return figure::repeated_channel(names_of_arms(comparison), figure::dashes());
}

Json shape_of_arms(const Comparison& comparison) {
  Json range = Json::array();
  for (std::size_t i = 0; i < comparison.arms.size(); ++i) {
    range.push_back(kShapes[(i + i / figure::colours().size()) % kShapes.size()]);
  }
  return figure::range_channel(names_of_arms(comparison), std::move(range));
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

namespace {

// Keys are names of files, and hold names of splits, arms and metrics, which may have any letter.
void name_files(std::vector<Figure>& all) {
  constexpr std::size_t kLongest = 200;  // bytes: most file systems take 255
  std::vector<std::string> keys;
  for (const Figure& figure : all) {
    std::string key = figure.key;
    std::ranges::replace_if(
        key,
        [](char c) {
          return static_cast<unsigned char>(c) < ' ' ||
                 std::string_view("/\\:*?\"<>|").find(c) != std::string_view::npos;
        },
        '_');
    if (key.size() > kLongest) {
      std::size_t end = kLongest;
      while (end > 0 && is_continuation(key[end])) --end;
      key.resize(end);
    }
    keys.push_back(std::move(key));
  }
  keys = distinct_names(keys);
  for (std::size_t i = 0; i < all.size(); ++i) all[i].key = std::move(keys[i]);
}

// Captions say which part of the split was read. Curves of a training have evaluations of their
// own.
void add_shares(const Comparison& comparison, std::vector<Figure>& all) {
  for (const std::string& split : comparison.splits) {
    const std::string words = share_words(comparison, split);
    if (words.empty()) continue;
    for (Figure& figure : all) {
      const bool is_of_split =
          (figure.title + ' ').find(str(" on ", split, ' ')) != figure.title.npos ||
          figure.title.find(str(" on ", split, ',')) != figure.title.npos;
      if (is_of_split && figure.section != "training") figure.caption += str(' ', words, '.');
    }
  }
}

}  // namespace

std::vector<Figure> figures(const Comparison& comparison,
                            const std::vector<Difference>& differences) {
  std::vector<Figure> out;
  add_cost_figures(comparison, true, out);
  add_difference_figures(comparison, differences, out);
  add_curve_figures(comparison, out);
  add_depth_figures(comparison, out);
  add_bucket_figures(comparison, out);
  add_cost_figures(comparison, false, out);
  add_probe_figures(comparison, out);
  add_diagnostic_figures(comparison, out);
  add_shares(comparison, out);
  name_files(out);
  return out;
}

}  // namespace mneme::report
