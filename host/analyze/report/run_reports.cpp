#include "host/analyze/report/run_reports.hpp"

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <utility>

#include "host/analyze/report/chart.hpp"
#include "host/base/text.hpp"

namespace mneme::analyze {
namespace {

// Where a value stands on a figure's axis: numbers at their place, others one after another.
double place_of(const std::string& value, std::size_t index) {
  char* end = nullptr;
  const double number = std::strtod(value.c_str(), &end);
  return value.empty() || *end != '\0' ? static_cast<double>(index) : number;
}

// A panel for every memory and number of rows, a line for every kind of rows.
class TitledPanels {
 public:
  std::vector<SvgPoint>& line(const MeasuredRegression& one, const std::string& series) {
    const std::string title = str(one.memory, ", ", one.rows, " rows");
    auto panel = std::ranges::find(panels_, title, &LinePanel::title);
    if (panel == panels_.end()) panel = panels_.insert(panel, {.title = title, .series = {}});
    auto found = std::ranges::find(panel->series, series, &Series::name);
    if (found == panel->series.end()) {
      found = panel->series.insert(found, {.name = series, .points = {}});
    }
    return found->points;
  }
  [[nodiscard]] const std::vector<LinePanel>& panels() const { return panels_; }

 private:
  std::vector<LinePanel> panels_;
};

void write_fits(const std::filesystem::path& folder, const std::string& option,
                const std::vector<MeasuredRegression>& measured) {
  Csv csv({"memory", "rows", "source", option, "error"});
  TitledPanels panels;
  for (const MeasuredRegression& one : measured) {
    csv.add(one.memory, one.rows, one.source, one.value, one.result.fit_error);
    std::vector<SvgPoint>& line = panels.line(one, one.source);
    line.push_back({place_of(one.value, line.size()), one.result.fit_error});
  }
  csv.save(folder / "regression.csv");
  line_chart(
      {.title = "Error of one segment's fit", .x_label = option, .y_label = "||X - Xhat|| / ||X||"},
      panels.panels(), 2)
      .save(folder / "regression.svg");
}

void write_ages(const std::filesystem::path& folder, const std::string& option,
                const std::vector<MeasuredRegression>& measured) {
  Csv csv({"memory", "rows", "source", option, "age", "points", "correlation", "error"});
  TitledPanels panels;
  for (const MeasuredRegression& one : measured) {
    for (const ReadBack& age : one.result.ageing) {
      csv.add(one.memory, one.rows, one.source, one.value, age.age, age.points, age.correlation,
              age.error);
      panels.line(one, str(one.source, one.value.empty() ? "" : " ", one.value))
          .push_back({static_cast<double>(age.age), std::max(0.0, age.correlation)});
    }
  }
  csv.save(folder / "ageing.csv");
  line_chart({.title = "What is left of a segment",
              .x_label = "updates since it was stored",
              .y_label = "correlation (below 0: 0)"},
             panels.panels(), 2)
      .save(folder / "ageing.svg");
}

}  // namespace

std::vector<std::string> write_regression(const std::filesystem::path& folder,
                                          const std::string& option,
                                          const std::vector<MeasuredRegression>& measured) {
  write_fits(folder, option, measured);
  const bool has_ages = std::ranges::any_of(
      measured, [](const MeasuredRegression& one) { return !one.result.ageing.empty(); });
  if (!has_ages) return {"regression.csv", "regression.svg"};
  write_ages(folder, option, measured);
  return {"regression.csv", "regression.svg", "ageing.csv", "ageing.svg"};
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
  LinePanel panel;
  for (const SizedResult& one : results) {
    const eval::Result& result = one.result;
    csv.add(one.memory, one.multiple, result.protocol.segment, result.protocol.context_rows,
            result.total.tokens, result.loss(), result.perplexity());
    auto curve = std::ranges::find(panel.series, one.memory, &Series::name);
    if (curve == panel.series.end()) {
      curve = panel.series.insert(curve, {.name = one.memory, .points = {}});
    }
    curve->points.push_back({static_cast<double>(one.multiple), result.perplexity()});
  }
  csv.save(folder / "extrapolation.csv");
  line_chart({.title = "Perplexity by memory size",
              .x_label = "memory rows in segments, 0 = no memory",
              .y_label = "perplexity",
              .y_axis = ChartText::YAxis::kFromLeast},
             {panel}, 1)
      .save(folder / "extrapolation.svg");
  return {"extrapolation.csv", "extrapolation.svg"};
}

std::vector<std::string> write_distances(const std::filesystem::path& folder,
                                         const std::vector<DistanceResult>& subjects,
                                         const backbone::DistanceSettings& settings) {
  Csv csv({"memory", "layer", "from", "to", "weight", "tokens"});
  std::map<std::int64_t, LinePanel> panels;
  for (const DistanceResult& subject : subjects) {
    for (const auto& [number, layer] : subject.layers) {
      Series curve{.name = subject.name, .points = {}};
      for (std::size_t i = 0; i < layer.weight.size(); ++i) {
        if (layer.tokens[i] == 0) continue;
        const std::int64_t from = static_cast<std::int64_t>(i) * settings.width + 1;
        const std::int64_t to = from + settings.width - 1;
        csv.add(subject.name, number, from, to, layer.weight[i], layer.tokens[i]);
        curve.points.push_back({0.5 * static_cast<double>(from + to), layer.weight[i]});
      }
      LinePanel& panel = panels[number];
      panel.title = str("layer ", number);
      panel.series.push_back(std::move(curve));
    }
  }
  std::vector<LinePanel> drawn;
  for (auto& [number, panel] : panels) drawn.push_back(std::move(panel));
  csv.save(folder / "distance.csv");
  line_chart({.title = str("Largest attention weight in each interval of ", settings.width),
              .x_label = "distance to the left, places",
              .y_label = "weight, mean over tokens and heads, in decades",
              .y_axis = ChartText::YAxis::kLog},
             drawn, 2)
      .save(folder / "distance.svg");
  return {"distance.csv", "distance.svg"};
}

Json to_json(const DistanceResult& subject) {
  Json layers = Json::array();
  for (const auto& [number, layer] : subject.layers) {
    layers.push_back({{"layer", number}, {"weight", layer.weight}, {"tokens", layer.tokens}});
  }
  return {{"name", subject.name}, {"layers", std::move(layers)}};
}

}  // namespace mneme::analyze
