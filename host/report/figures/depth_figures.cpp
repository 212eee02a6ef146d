// Heat maps of a needle's depth and length.
#include <cstdint>
#include <nlohmann/json.hpp>
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

std::string pooled_words(const Comparison& comparison) {
  if (comparison.seeds.size() < 2) return "Accuracy in percent; one seed.";
  return str("Accuracy in percent of the targets of all ", comparison.seeds.size(), " seeds.");
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
          .caption = pooled_words(comparison),
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
          .caption = pooled_words(comparison),
          .spec = heat_spec(std::move(values), lengths.size(), "length", "length, tokens",
                            "descending")};
}

}  // namespace

void add_depth_figures(const Comparison& comparison, std::vector<Figure>& out) {
  const std::vector<DepthCell> all = depth_cells(comparison);
  for (const std::string& split : comparison.splits) {
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
