// Accuracy by where the source of an answer lies: heat maps of a needle's depth and length, and the
// curve over the segments since a value was told.
#include <charconv>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "host/report/comparison/depths.hpp"
#include "host/report/figures/figure.hpp"

namespace mneme::report {
namespace {

constexpr int kRowHeight = 30;     // pixels
constexpr int kAroundRows = 150;   // legend, axis and its title
constexpr int kLightestDark = 60;  // percent: up to here letters on the colour are white
constexpr const char* kDepthTitle = "depth of the needle, 0 = beginning";

Json cell_value(const Comparison& comparison, const DepthCell& cell) {
  return {{"arm", comparison.arms[cell.arm].name},
          {"depth", cell.depth},
          {"length", cell.length},
          {"accuracy", 100.0 * cell.sums.accuracy()},
          {"targets", cell.sums.judged()},
          {"seeds", cell.seeds}};
}

// Squares coloured by accuracy, with the number in each. `row`: the field that tells rows apart.
Json heat_spec(Json values, std::size_t rows, const char* row, Json row_title, Json row_sort) {
  const Json x = {{"field", "depth"},
                  {"type", "ordinal"},
                  {"title", kDepthTitle},
                  {"axis", {{"labelAngle", -35}}}};
  const Json y = {{"field", row},
                  {"type", "ordinal"},
                  {"title", std::move(row_title)},
                  {"sort", std::move(row_sort)}};
  const Json colour = {{"field", "accuracy"},
                       {"type", "quantitative"},
                       {"title", "accuracy, %"},
                       {"scale", {{"scheme", "viridis"}, {"domain", {0, 100}}}},
                       {"legend", {{"orient", "top"}}}};
  const Json tooltip =
      Json::array({tip("arm", "arm"), tip("depth", "depth"), tip("length", "length, tokens", "d"),
                   tip("accuracy", "accuracy, %", ".1f"),
                   tip("targets", "targets of all seeds", ",d"), tip("seeds", "seeds", "d")});
  const Json letters = {
      {"condition", {{"test", str("datum.accuracy < ", kLightestDark)}, {"value", "#ffffff"}}},
      {"value", "#000000"}};
  Json layers = Json::array();
  layers.push_back({{"mark", {{"type", "rect"}}},
                    {"encoding", {{"x", x}, {"y", y}, {"color", colour}, {"tooltip", tooltip}}}});
  layers.push_back(
      {{"mark", {{"type", "text"}, {"fontSize", 10}, {"tooltip", false}}},
       {"encoding",
        {{"x", x},
         {"y", y},
         {"text", {{"field", "accuracy"}, {"type", "quantitative"}, {"format", ".0f"}}},
         {"color", letters}}}});
  return layered(std::move(values), std::move(layers),
                 kAroundRows + kRowHeight * static_cast<int>(rows));
}

std::string caption_of(const Comparison& comparison, const std::string& split) {
  const std::string pooled = pooled_words(comparison, split);
  const std::string words = pooled.empty() ? "" : ", " + pooled;
  if (comparison.seeds.size() < 2) return str("Accuracy in percent", words, "; one seed.");
  return str("Accuracy in percent of the targets of all ", comparison.seeds.size(), " seeds", words,
             '.');
}

// One length: a row an arm.
Figure depth_figure(const Comparison& comparison, const std::string& split,
                    const std::vector<const DepthCell*>& cells) {
  Json values = Json::array();
  std::set<std::size_t> arms;
  for (const DepthCell* const cell : cells) {
    values.push_back(cell_value(comparison, *cell));
    arms.insert(cell->arm);
  }
  Json order = Json::array();
  for (const std::size_t arm : arms) order.push_back(comparison.arms[arm].name);
  return {.key = str("depth-", split),
          .section = "position",
          .title = str("Accuracy on ", split, " by the needle's depth, haystack of ",
                       cells.front()->length, " tokens"),
          .caption = caption_of(comparison, split),
          .spec = heat_spec(std::move(values), arms.size(), "arm", nullptr, std::move(order))};
}

// Several lengths: a figure an arm, a row a length.
Figure length_figure(const Comparison& comparison, const std::string& split, std::size_t arm,
                     const std::vector<const DepthCell*>& cells) {
  Json values = Json::array();
  std::set<std::int64_t> lengths;
  for (const DepthCell* const cell : cells) {
    if (cell->arm != arm) continue;
    values.push_back(cell_value(comparison, *cell));
    lengths.insert(cell->length);
  }
  return {.key = str("depth-", split, '-', arm + 1),
          .section = "position",
          .title = str("Accuracy on ", split,
                       " by the needle's depth and length: ", comparison.arms[arm].name),
          .caption = caption_of(comparison, split),
          .spec = heat_spec(std::move(values), lengths.size(), "length", "length, tokens",
                            "descending")};
}

// The group "delay" of the task retention: segments since the value was told.
std::optional<std::int64_t> delay_of(const std::map<std::string, std::string>& groups) {
  const auto found = groups.find("delay");
  std::int64_t delay = 0;
  if (found == groups.end()) return std::nullopt;
  const std::string& text = found->second;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), delay);
  const bool is_whole = error == std::errc() && end == text.data() + text.size() && delay >= 0;
  return is_whole ? std::optional(delay) : std::nullopt;
}

// [delay] -> the accuracies of the arm's seeds.
std::map<std::int64_t, std::vector<double>> accuracies_by_delay(const Arm& arm,
                                                                const std::string& split) {
  std::map<std::int64_t, std::vector<double>> out;
  for (const Run& run : arm.runs) {
    const EvaluationSummary* const found = run.error ? nullptr : run.find(split);
    if (found == nullptr) continue;
    std::map<std::int64_t, scores::Sums> sums;  // samples may have other groups, too
    for (const GroupSums& group : found->groups) {
      if (const auto delay = delay_of(group.groups)) sums[*delay].add(group.sums);
    }
    for (const auto& [delay, of] : sums) out[delay].push_back(of.accuracy());
  }
  return out;
}

// The forgetting curve; absent with fewer than two delays.
std::optional<Figure> delay_figure(const Comparison& comparison, const std::string& split) {
  Json values = Json::array();
  std::set<std::int64_t> delays;
  for (const Arm& arm : comparison.arms) {
    for (const auto& [delay, accuracies] : accuracies_by_delay(arm, split)) {
      const auto band = band_of(accuracies);
      if (!band) continue;
      values.push_back({{"arm", arm.name},
                        {"x", delay},
                        {"mean", band->mean},
                        {"low", band->low},
                        {"high", band->high}});
      delays.insert(delay);
    }
  }
  if (delays.size() < 2) return std::nullopt;
  Json x = axis_channel({.field = "x", .title = "segments since the value was told"});
  x["scale"] = {{"type", "symlog"}, {"nice", false}};
  x["axis"]["values"] = delays;
  const std::string words = "accuracy on " + split;
  const Json tooltip =
      Json::array({tip("arm", "arm"), tip("x", "segments", "d"), tip("mean", words, ".4f"),
                   tip("low", "lowest seed", ".4f"), tip("high", "highest seed", ".4f")});
  return Figure{
      .key = "delay-" + split,
      .section = "position",
      .title = str("Accuracy on ", split, " by the segments since the value was told"),
      .caption = band_words(comparison),
      .spec = layered(std::move(values),
                      line_layers(comparison, std::move(x),
                                  axis_channel(figure::from_zero("mean", words)), true, tooltip),
                      320)};
}

}  // namespace

void add_depth_figures(const Comparison& comparison, std::vector<Figure>& out) {
  const std::vector<DepthCell> all = depth_cells(comparison);
  for (const std::string& split : comparison.splits) {
    if (auto figure = delay_figure(comparison, split)) out.push_back(std::move(*figure));
    std::vector<const DepthCell*> cells;
    std::set<std::int64_t> lengths;
    std::set<std::string> depths;
    std::set<std::size_t> arms;
    for (const DepthCell& cell : all) {
      if (cell.split != split) continue;
      cells.push_back(&cell);
      lengths.insert(cell.length);
      depths.insert(cell.depth);
      arms.insert(cell.arm);
    }
    if (lengths.size() == 1 && depths.size() > 1) {
      out.push_back(depth_figure(comparison, split, cells));
    }
    if (lengths.size() < 2) continue;
    for (const std::size_t arm : arms) {
      out.push_back(length_figure(comparison, split, arm, cells));
    }
  }
}

}  // namespace mneme::report
