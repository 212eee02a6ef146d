// What stored diagnostics say of the memories: attention by distance and by kind of row, where a
// continuous memory is read and what it keeps, what carried rows weigh.
#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "host/report/figures/figure.hpp"

namespace mneme::report {
namespace {

using scores::Diagnostics;
using scores::LayerValues;

constexpr std::array kRegionWords = {"compressed memory", "memory", "segment"};

// Layers' values over places, as a figure with a line for each arm.
struct ProbeCurve {
  const char* key;
  const char* title;
  const char* x_title;
  const char* y_title;
  const char* caption;
  const std::vector<LayerValues>& (*values)(const Diagnostics& of);
  double (*place)(const Diagnostics& of, std::size_t index, std::size_t count);
};

const std::array<ProbeCurve, 4> kProbeCurves = {{
    {"attention-distance", "Attention by distance", "distance, tokens", "largest weight",
     "The largest weight that a token gives to one place of an interval of distances; mean over "
     "tokens, heads and layers. A continuous memory has no distances and is left out.",
     [](const Diagnostics& of) -> const std::vector<LayerValues>& { return of.distance; },
     [](const Diagnostics& of, std::size_t i, std::size_t) {
       const auto width = static_cast<double>(of.distance_width);
       return static_cast<double>(i) * width + (width + 1.0) / 2.0;
     }},
    {"memory-density", "Where the continuous memory is read", "place in the memory, 0 to 1",
     "share of the attention",
     "Mass of the attention's densities in each of equal parts of the memory, oldest part first; "
     "mean over queries, heads and layers.",
     [](const Diagnostics& of) -> const std::vector<LayerValues>& { return of.density; },
     [](const Diagnostics&, std::size_t i, std::size_t count) {
       return (static_cast<double>(i) + 0.5) / static_cast<double>(count);
     }},
    {"memory-age", "What the continuous memory keeps", "age, tokens", "share of the memory",
     "The share of the memory that belongs to tokens of an age; mean over writes and layers.",
     [](const Diagnostics& of) -> const std::vector<LayerValues>& { return of.age; },
     [](const Diagnostics& of, std::size_t i, std::size_t) {
       return static_cast<double>(i) * static_cast<double>(of.stretch);
     }},
    {"memory-alpha", "Weight of what memory rows carry", "row, oldest first", "alpha",
     "Alpha is the weight of what a memory row carries against what it sees of the new tokens; "
     "mean over segments, heads and layers.",
     [](const Diagnostics& of) -> const std::vector<LayerValues>& { return of.alpha; },
     [](const Diagnostics&, std::size_t i, std::size_t) { return static_cast<double>(i); }},
}};

// Calls `visit` with the diagnostics of every run of an arm.
void for_each_diagnostics(const Arm& arm, const std::string& split,
                          const std::function<void(const Diagnostics&)>& visit) {
  for (const Run& run : arm.runs) {
    const EvaluationSummary* const evaluation = run.find(split);
    if (evaluation != nullptr && evaluation->diagnostics) visit(*evaluation->diagnostics);
  }
}

// The mean over layers at a place; NaN when no layer saw it.
double mean_over_layers(const std::vector<LayerValues>& layers, std::size_t index) {
  double sum = 0.0;
  double count = 0.0;
  for (const LayerValues& layer : layers) {
    if (index >= layer.values.size() || std::isnan(layer.values[index])) continue;
    sum += layer.values[index];
    count += 1.0;
  }
  return count == 0.0 ? std::nan("") : sum / count;
}

// [place] -> a number of each seed.
std::map<double, std::vector<double>> places_of(const Arm& arm, const std::string& split,
                                                const ProbeCurve& curve) {
  std::map<double, std::vector<double>> out;
  for_each_diagnostics(arm, split, [&](const Diagnostics& of) {
    const std::vector<LayerValues>& layers = curve.values(of);
    std::size_t count = 0;
    for (const LayerValues& layer : layers) count = std::max(count, layer.values.size());
    for (std::size_t i = 0; i < count; ++i) {
      const double value = mean_over_layers(layers, i);
      if (!std::isnan(value)) out[curve.place(of, i, count)].push_back(value);
    }
  });
  return out;
}

// "The first 64 segments of 4 lanes of valid."
std::string measured_words(const Comparison& comparison, const std::string& split) {
  std::string words;
  for (const Arm& arm : comparison.arms) {
    for_each_diagnostics(arm, split, [&](const Diagnostics& of) {
      if (words.empty()) {
        words = str(" Measured on the first ", of.segments, " segments of ", of.lanes,
                    of.lanes == 1 ? " lane of " : " lanes of ", split, ". ");
      }
    });
  }
  return words;
}

void add_probe_curve(const Comparison& comparison, const std::string& split,
                     const ProbeCurve& curve, std::vector<Figure>& out) {
  Json values = Json::array();
  bool has_line = false;
  for (const Arm& arm : comparison.arms) {
    const auto places = places_of(arm, split, curve);
    has_line = has_line || places.size() > 1;
    for (const auto& [x, numbers] : places) {
      const auto band = band_of(numbers);
      if (!band) continue;
      values.push_back({{"arm", arm.name},
                        {"x", x},
                        {"mean", band->mean},
                        {"low", band->low},
                        {"high", band->high}});
    }
  }
  if (!has_line) return;
  const Json tooltip = Json::array(
      {tip("arm", "arm"), tip("x", curve.x_title, ".4~g"), tip("mean", curve.y_title, ".4~g"),
       tip("low", "lowest seed", ".4~g"), tip("high", "highest seed", ".4~g")});
  Json layers =
      line_layers(comparison, figure::axis_channel({.field = "x", .title = curve.x_title}),
                  figure::axis_channel(figure::from_zero("mean", curve.y_title)), false, tooltip);
  out.push_back(
      {.key = str(curve.key, '-', split),
       .section = "diagnostics",
       .title = curve.title,
       .caption = curve.caption + measured_words(comparison, split) + band_words(comparison),
       .spec = layered(std::move(values), std::move(layers), 300)});
}

// Stacked bars: a bar for each arm.
void add_region_figure(const Comparison& comparison, const std::string& split,
                       std::vector<Figure>& out) {
  Json values = Json::array();
  Json order = Json::array();
  for (const Arm& arm : comparison.arms) {
    std::array<double, kRegionWords.size()> sums = {};
    double layers = 0.0;  // of all seeds
    for_each_diagnostics(arm, split, [&](const Diagnostics& of) {
      for (const scores::LayerRegions& one : of.regions) {
        for (std::size_t r = 0; r < sums.size(); ++r) sums[r] += one.shares[r];
        layers += 1.0;
      }
    });
    if (layers == 0.0) continue;
    order.push_back(arm.name);
    for (std::size_t r = 0; r < sums.size(); ++r) {
      values.push_back({{"arm", arm.name},
                        {"region", kRegionWords.at(r)},
                        {"number", r},
                        {"share", sums[r] / layers}});
    }
  }
  if (values.empty()) return;
  const Json encoding = {
      {"y", {{"field", "arm"}, {"type", "nominal"}, {"title", "arm"}, {"sort", order}}},
      {"x", figure::axis_channel({.field = "share", .title = "share of the attention"})},
      {"color",
       {{"field", "region"},
        {"type", "nominal"},
        {"title", "rows"},
        {"sort", kRegionWords},
        {"scale", {{"domain", kRegionWords}, {"range", {"#0072b2", "#56b4e9", "#e69f00"}}}}}},
      {"order", {{"field", "number"}, {"type", "quantitative"}}},
      {"tooltip", Json::array({tip("arm", "arm"), tip("region", "rows"),
                               tip("share", "share of the attention", ".4f")})}};
  const int height = 60 + 26 * static_cast<int>(order.size());
  out.push_back(
      {.key = "attention-regions-" + split,
       .section = "diagnostics",
       .title = "Attention by kind of row",
       .caption =
           "Mean over segments, heads, queries, layers and seeds, while the memory is full." +
           measured_words(comparison, split),
       .spec =
           layered(std::move(values),
                   Json::array({{{"mark", {{"type", "bar"}}}, {"encoding", encoding}}}), height)});
}

}  // namespace

void add_probe_figures(const Comparison& comparison, std::vector<Figure>& out) {
  for (const std::string& split : comparison.splits) {
    for (const ProbeCurve& curve : kProbeCurves) add_probe_curve(comparison, split, curve, out);
    add_region_figure(comparison, split, out);
  }
}

}  // namespace mneme::report
