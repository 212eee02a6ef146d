#include "host/analyze/report/run_reports.hpp"

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "host/analyze/report/report.hpp"
#include "host/base/file/csv.hpp"
#include "host/base/text.hpp"
#include "host/figure/charts.hpp"

namespace mneme::analyze {
namespace {

std::optional<double> number_of(const std::string& text) {
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  if (text.empty() || *end != '\0') return std::nullopt;
  return number;
}

std::string panel_of(const MeasuredRegression& one) {
  return str(one.memory, ", ", one.rows, " rows");
}

// A panel for every memory and number of rows.
figure::Panels panels_of(const std::vector<MeasuredRegression>& measured) {
  figure::Panels panels{.field = "panel", .columns = 2};
  for (const MeasuredRegression& one : measured) add_once(panels.names, panel_of(one));
  return panels;
}

void write_fits(const std::string& option, const std::vector<MeasuredRegression>& measured,
                FigureFiles& files) {
  Csv csv({"memory", "rows", "source", option, "error"});
  // Values that are no numbers stand one after another.
  const bool has_numbers = std::ranges::all_of(
      measured, [](const MeasuredRegression& one) { return number_of(one.value).has_value(); });
  figure::Chart chart{.x = {.field = "value", .title = option},
                      .y = figure::from_zero("error", "relative error ||X - Xhat|| / ||X||"),
                      .colour = {.field = "source", .title = "rows that are stored"},
                      .panels = panels_of(measured),
                      .tips = {{"panel", "memory"},
                               {"source", "rows"},
                               {"value", option},
                               {"error", "relative error", ".4f"}}};
  for (const MeasuredRegression& one : measured) {
    csv.add(one.memory, one.rows, one.source, one.value, one.result.fit_error);
    const std::string word = one.value.empty() ? "as the file has it" : one.value;
    if (!has_numbers) add_once(chart.x.words, word);
    add_once(chart.colour.names, one.source);
    chart.values.push_back({{"panel", panel_of(one)},
                            {"source", one.source},
                            {"value", has_numbers ? Json(*number_of(one.value)) : Json(word)},
                            {"error", one.result.fit_error}});
  }
  files.save(
      csv,
      {.key = "regression",
       .title = "Error of one segment's fit",
       .caption = "A segment of rows X is stored into an empty memory and read back as Xhat: 0 = "
                  "nothing is lost, 1 = as good as zeros.",
       .spec = figure::lines(chart)});
}

void write_ages(const std::string& option, const std::vector<MeasuredRegression>& measured,
                FigureFiles& files) {
  Csv csv({"memory", "rows", "source", option, "age", "points", "correlation", "error"});
  figure::Chart chart{.x = {.field = "age",
                            .title = "updates since it was stored",
                            .scale = figure::Axis::Scale::kFromZero,
                            .is_whole = true},
                      .y = figure::from_zero("correlation", "correlation with what was stored"),
                      .colour = {.field = "value", .title = option},
                      .panels = {.field = "panel", .columns = 2},
                      .tips = {{"panel", "memory"},
                               {"value", option},
                               {"age", "updates"},
                               {"points", "points left"},
                               {"correlation", "correlation", ".4f"},
                               {"error", "relative error", ".4f"}}};
  for (const MeasuredRegression& one : measured) {
    const std::string value = one.value.empty() ? "as the file has it" : one.value;
    const std::string panel = str(panel_of(one), ", ", one.source);
    for (const ReadBack& age : one.result.ageing) {
      csv.add(one.memory, one.rows, one.source, one.value, age.age, age.points, age.correlation,
              age.error);
      add_once(chart.colour.names, value);
      add_once(chart.panels.names, panel);
      chart.values.push_back({{"panel", panel},
                              {"value", value},
                              {"age", age.age},
                              {"points", age.points},
                              {"correlation", age.correlation},
                              {"error", age.error}});
    }
  }
  files.save(
      csv, {.key = "ageing",
            .title = "What is left of a segment",
            .caption = "Correlation of the signal with the segment that was stored so many updates "
                       "ago, at the points that still belong to it; mean over writes.",
            .spec = figure::lines(chart)});
}

}  // namespace

std::vector<std::string> write_regression(const std::filesystem::path& folder,
                                          const std::string& option,
                                          const std::vector<MeasuredRegression>& measured) {
  FigureFiles files(folder);
  write_fits(option, measured, files);
  const bool has_ages = std::ranges::any_of(
      measured, [](const MeasuredRegression& one) { return !one.result.ageing.empty(); });
  if (has_ages) write_ages(option, measured, files);
  files.save_page("regression", "What the regression keeps");
  return files.names();
}

Json to_json(const std::string& option, const std::vector<MeasuredRegression>& measured) {
  Json results = Json::array();
  for (const MeasuredRegression& one : measured) {
    Json ages = Json::array();
    for (const ReadBack& age : one.result.ageing) {
      ages.push_back({{"age", age.age},
                      {"points", age.points},
                      {"correlation", age.correlation},
                      {"error", age.error}});
    }
    results.push_back({{"memory", one.memory},
                       {"rows", one.rows},
                       {"source", one.source},
                       {"value", one.value},
                       {"error", one.result.fit_error},
                       {"ageing", std::move(ages)}});
  }
  return {{"format", "mneme-regression"}, {"option", option}, {"results", std::move(results)}};
}

std::vector<std::string> write_extrapolation(const std::filesystem::path& folder,
                                             const std::vector<SizedResult>& results) {
  Csv csv({"memory", "multiple", "segment", "context_rows", "tokens", "loss", "perplexity"});
  figure::Chart chart{.x = {.field = "multiple",
                            .title = "memory rows in segments, 0 = no memory",
                            .scale = figure::Axis::Scale::kFromZero,
                            .is_whole = true},
                      .y = {.field = "perplexity", .title = "perplexity"},
                      .colour = {.field = "memory", .title = "memory"},
                      .tips = {{"memory", "memory"},
                               {"rows", "rows"},
                               {"perplexity", "perplexity", ".3f"},
                               {"loss", "loss, nats a token", ".4f"}}};
  for (const SizedResult& one : results) {
    const eval::Result& result = one.result;
    csv.add(one.memory, one.multiple, result.protocol.segment, result.protocol.context_rows,
            result.total.targets, result.loss(), result.perplexity());
    add_once(chart.colour.names, one.memory);
    chart.values.push_back({{"memory", one.memory},
                            {"multiple", one.multiple},
                            {"rows", result.protocol.context_rows},
                            {"loss", result.loss()},
                            {"perplexity", result.perplexity()}});
  }
  FigureFiles files(folder);
  files.save(
      csv,
      {.key = "extrapolation",
       .title = "Perplexity by memory size",
       .caption = "Every memory with the same weights and other numbers of rows than in training.",
       .spec = figure::lines(chart)});
  files.save_page("extrapolation", "Perplexity by memory size");
  return files.names();
}

std::vector<std::string> write_distances(const std::filesystem::path& folder,
                                         const std::vector<DistanceResult>& subjects,
                                         const backbone::DistanceSettings& settings) {
  Csv csv({"memory", "layer", "from", "to", "weight", "tokens"});
  figure::Chart chart{
      .x = figure::from_zero("distance", "distance to the left, places"),
      .y = {.field = "weight", .title = "largest weight, mean", .scale = figure::Axis::Scale::kLog},
      .colour = {.field = "memory", .title = "memory"},
      .panels = {.field = "panel", .columns = 2},
      .tips = {{"memory", "memory"},
               {"panel", "layer"},
               {"places", "places"},
               {"weight", "largest weight", ".5f"},
               {"tokens", "tokens"}}};
  std::set<std::int64_t> layers;
  for (const DistanceResult& subject : subjects) {
    add_once(chart.colour.names, subject.name);
    for (const auto& [number, layer] : subject.layers) {
      layers.insert(number);
      for (std::size_t i = 0; i < layer.weight.size(); ++i) {
        if (layer.tokens[i] == 0) continue;
        const std::int64_t from = static_cast<std::int64_t>(i) * settings.width + 1;
        const std::int64_t to = from + settings.width - 1;
        csv.add(subject.name, number, from, to, layer.weight[i], layer.tokens[i]);
        chart.values.push_back({{"memory", subject.name},
                                {"panel", str("layer ", number)},
                                {"distance", 0.5 * static_cast<double>(from + to)},
                                {"places", str(from, " to ", to)},
                                {"weight", layer.weight[i]},
                                {"tokens", layer.tokens[i]}});
      }
    }
  }
  for (const std::int64_t number : layers) chart.panels.names.push_back(str("layer ", number));
  FigureFiles files(folder);
  files.save(csv,
             {.key = "distance",
              .title = str("How far attention reaches: ", join(chart.panels.names, ", ")),
              .caption = str("The largest attention weight on a place of each interval of ",
                             settings.width, " places, mean over tokens and heads, in decades."),
              .spec = figure::lines(chart)});
  files.save_page("distance", "How far attention reaches");
  return files.names();
}

Json to_json(const DistanceResult& subject) {
  Json layers = Json::array();
  for (const auto& [number, layer] : subject.layers) {
    layers.push_back({{"layer", number}, {"weight", layer.weight}, {"tokens", layer.tokens}});
  }
  return {{"name", subject.name}, {"layers", std::move(layers)}};
}

}  // namespace mneme::analyze
