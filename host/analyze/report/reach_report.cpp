#include "host/analyze/report/reach_report.hpp"

#include <nlohmann/json.hpp>
#include <utility>

#include "host/analyze/report/chart.hpp"
#include "host/analyze/report/csv.hpp"
#include "host/base/text.hpp"

namespace mneme::analyze {

std::vector<std::string> write_reach(const std::filesystem::path& folder,
                                     const std::vector<ReachSubject>& subjects,
                                     const backbone::ReachSettings& settings) {
  Csv csv({"memory", "layer", "from", "to", "weight", "tokens"});
  std::map<std::int64_t, LinePanel> panels;
  for (const ReachSubject& subject : subjects) {
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

Json to_json(const ReachSubject& subject) {
  Json layers = Json::array();
  for (const auto& [number, layer] : subject.layers) {
    layers.push_back({{"layer", number}, {"weight", layer.weight}, {"tokens", layer.tokens}});
  }
  return {{"name", subject.name}, {"layers", std::move(layers)}};
}

}  // namespace mneme::analyze
