// Loss over what it costs: state bytes, speed, FLOPs, parameters; and over the setting of a sweep.
#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "host/report/figures/figure.hpp"

namespace mneme::report {
namespace {

constexpr std::size_t kMaxOwnTicks = 16;

// What lies on the x axis.
struct Cost {
  std::string key;
  std::string words;  // "over state bytes"
  std::string axis;
  std::vector<double> x;       // [arm]; NaN = not known
  bool has_own_ticks = false;  // at the arms' values
};

// An axis of numbers of several orders of magnitude is logarithmic, unless some are below 0, as a
// sweep's may be. One that has 0 too is linear around it [Webber, A bi-symmetric log
// transformation, 2013] and has ticks at powers of ten, which Vega does not find by itself.
Json scale_axis(const Cost& cost) {
  Json channel = axis_channel({.field = "x", .title = cost.axis, .format = "~s"});
  double least = std::numeric_limits<double>::infinity();
  double most = 0.0;
  bool has_zero = false;
  bool has_negative = false;
  for (const double value : cost.x) {
    if (std::isnan(value)) continue;
    has_zero = has_zero || value == 0.0;
    has_negative = has_negative || value < 0.0;
    if (value > 0.0) least = std::min(least, value);
    most = std::max(most, value);
  }
  if (cost.has_own_ticks && cost.x.size() <= kMaxOwnTicks) {
    channel["axis"] = {{"format", ",.12~g"}, {"values", Json::array()}};
    for (const double value : cost.x) {
      if (!std::isnan(value)) channel["axis"]["values"].push_back(value);
    }
  }
  if (has_negative || most < 8.0 * least) {  // also when nothing is above 0
    channel["scale"]["zero"] = has_zero;
    if (!has_zero) channel["scale"]["padding"] = 16;
    return channel;
  }
  if (!has_zero) {
    channel["scale"] = {{"type", "log"}, {"nice", false}, {"padding", 24}};
    return channel;
  }
  Json ticks = Json::array({0});
  for (double tick = std::pow(10.0, std::floor(std::log10(least))); tick <= most * 1.0001;
       tick *= 10.0) {
    for (const double factor : {1.0, 2.0, 5.0}) {
      if (tick * factor >= least * 0.9999 && tick * factor <= most * 1.5) {
        ticks.push_back(tick * factor);
      }
    }
  }
  channel["scale"] = {{"type", "symlog"}, {"constant", least}, {"nice", false}, {"padding", 24}};
  if (!channel["axis"].contains("values")) channel["axis"]["values"] = std::move(ticks);
  return channel;
}

Json points_of(const Comparison& comparison, const Cost& cost, const Metric& loss) {
  Json values = Json::array();
  for (std::size_t arm = 0; arm < comparison.arms.size(); ++arm) {
    const auto band = band_of(loss.values[arm]);
    if (!band || std::isnan(cost.x[arm])) continue;
    values.push_back({{"arm", comparison.arms[arm].name},
                      {"x", cost.x[arm]},
                      {"mean", band->mean},
                      {"low", band->low},
                      {"high", band->high}});
  }
  return values;
}

Json spec_of(const Comparison& comparison, Json values, const Cost& cost, const std::string& what,
             const Json& connected) {
  const Json x = scale_axis(cost);
  Json y = axis_channel({.field = "mean", .title = what});
  y["scale"]["padding"] = 10;
  Json low = y;
  low["field"] = "low";
  const Json colour = colour_of_arms(comparison);
  Json layers = Json::array();
  if (!connected.empty()) {
    layers.push_back({{"transform", {{{"filter", {{"field", "arm"}, {"oneOf", connected}}}}}},
                      {"mark", {{"type", "line"}, {"color", "#8c8c8c"}, {"strokeWidth", 1.5}}},
                      {"encoding", {{"x", x}, {"y", y}}}});
  }
  if (comparison.seeds.size() > 1) {
    layers.push_back(
        {{"mark", {{"type", "rule"}, {"strokeWidth", 2}}},
         {"encoding", {{"x", x}, {"y", low}, {"y2", {{"field", "high"}}}, {"color", colour}}}});
  }
  layers.push_back(
      {{"mark", {{"type", "point"}, {"filled", true}, {"size", 110}, {"opacity", 1}}},
       {"encoding",
        {{"x", x},
         {"y", y},
         {"color", colour},
         {"shape", shape_of_arms(comparison)},
         {"tooltip",
          Json::array({tip("arm", "arm"), tip("x", cost.axis, ",.6~g"), tip("mean", what, ".4f"),
                       tip("low", "lowest seed", ".4f"), tip("high", "highest seed", ".4f")})}}}});
  return layered(std::move(values), std::move(layers), 320);
}

// A cost from a line of the table: the mean of the arm's seeds.
Cost from_metric(const Comparison& comparison, const std::vector<Metric>& lines, const char* key,
                 const char* words) {
  Cost out{.key = key,
           .words = words,
           .axis = {},
           .x = std::vector<double>(comparison.arms.size(), std::nan(""))};
  const Metric* const found = find_metric(lines, key);
  if (found == nullptr) return out;
  out.axis = found->name;
  for (std::size_t arm = 0; arm < comparison.arms.size(); ++arm) {
    out.x[arm] = spread(found->values[arm]).mean;
  }
  return out;
}

// False when all arms cost the same, or only one is known.
bool differs(const Cost& cost) {
  std::vector<double> known;
  std::ranges::copy_if(cost.x, std::back_inserter(known),
                       [](double value) { return !std::isnan(value); });
  return !known.empty() && std::ranges::any_of(known, [&](double x) { return x != known.front(); });
}

void add(const Comparison& comparison, const std::vector<Metric>& lines, const Cost& cost,
         const Json& connected, std::vector<Figure>& out) {
  if (!differs(cost)) return;
  for (const std::string& split : comparison.splits) {
    const Metric* const loss = find_metric(lines, split + ".loss");
    if (loss == nullptr) continue;
    Json values = points_of(comparison, cost, *loss);
    if (values.size() < 2) continue;
    std::string caption = comparison.seeds.size() < 2
                              ? "One seed."
                              : str("Points are means of ", comparison.seeds.size(),
                                    " seeds, lines reach from the lowest to the highest.");
    out.push_back({.key = str("loss-over-", cost.key, '-', split),
                   .section = "cost",
                   .title = str("Loss on ", split, ' ', cost.words),
                   .caption = std::move(caption),
                   .spec = spec_of(comparison, std::move(values), cost,
                                   str("loss on ", split, ", nats a token"), connected)});
  }
}

// The names of the arms that a sweep consists of.
Json members(const Comparison& comparison, const std::optional<Sweep>& sweep) {
  Json names = Json::array();
  for (std::size_t arm = 0; sweep && arm < comparison.arms.size(); ++arm) {
    if (sweep->values[arm]) names.push_back(comparison.arms[arm].name);
  }
  return names;
}

}  // namespace

void add_cost_figures(const Comparison& comparison, bool is_sweep, std::vector<Figure>& out) {
  const std::vector<Metric> lines = metrics(comparison);
  const std::optional<Sweep> sweep = find_sweep(comparison);
  const Json connected = members(comparison, sweep);
  if (is_sweep) {
    if (!sweep) return;
    Cost cost{.key = "setting",
              .words = "over " + sweep->key,
              .axis = sweep->key,
              .x = {},
              .has_own_ticks = true};
    for (const auto& value : sweep->values) cost.x.push_back(value.value_or(std::nan("")));
    const std::size_t before = out.size();
    add(comparison, lines, cost, connected, out);
    for (std::size_t i = before; i < out.size(); ++i) out[i].section = "sweep";
    return;
  }
  for (const auto& [key, words] :
       {std::pair("state_bytes", "over state bytes"),
        std::pair("evaluation_tokens_per_second", "over evaluation speed"),
        std::pair("training_tokens_per_second", "over training speed"),
        std::pair("training_flops", "over training FLOPs"),
        std::pair("evaluation_flops", "over evaluation FLOPs"),
        std::pair("memory_parameters", "over parameters of the memory")}) {
    add(comparison, lines, from_metric(comparison, lines, key, words), connected, out);
  }
}

}  // namespace mneme::report
