#include <map>
#include <utility>

#include "host/analyze/report/chart.hpp"
#include "host/analyze/report/report.hpp"
#include "host/base/text.hpp"

namespace mneme::analyze {

void StudyReport::write_alpha() {
  Csv csv({"memory", "tier", "layer", "place", "alpha", "segments"});
  std::map<std::pair<std::string, std::string>, LinePanel> panels;  // by memory and tier
  for (const Subject& subject : subjects_) {
    for (const auto& [place, layer] : subject.study->alpha().layers()) {
      LinePanel& panel = panels[{subject.name, place.tier}];
      panel.title = str(subject.name, ", ", place.tier, ", ", layer.segments, " segments");
      Series curve{.name = str("layer ", place.layer), .points = {}};
      for (std::size_t m = 0; m < layer.alpha.size(); ++m) {
        csv.add(subject.name, place.tier, place.layer, m, layer.alpha[m], layer.segments);
        curve.points.push_back({static_cast<double>(m), layer.alpha[m]});
      }
      panel.series.push_back(std::move(curve));
    }
  }
  if (panels.empty()) return;
  std::vector<LinePanel> drawn;
  for (auto& [key, panel] : panels) drawn.push_back(std::move(panel));
  save("alpha", csv,
       line_chart({.title = "What memory rows keep of their context (alpha), mean over heads",
                   .x_label = "place in the memory, 0 = oldest",
                   .y_label = "alpha"},
                  drawn, 2));
}

void StudyReport::write_regions() {
  Csv csv({"memory", "tier", "layer", "region", "place", "share", "segments"});
  std::vector<LinePanel> panels;
  for (const Subject& subject : subjects_) {
    for (const auto& [place, layer] : subject.study->regions().layers()) {
      LinePanel panel{.title = str(subjects_.size() > 1 ? subject.name + ", " : "", place.tier,
                                   ", layer ", place.layer),
                      .series = {}};
      for (std::size_t r = 0; r < layer.places.size(); ++r) {
        Series curve{.name = MassByRegion::kRegions.at(r), .points = {}};
        const std::int64_t first = layer.first(r);
        for (std::int64_t i = first; i < first + layer.places.at(r); ++i) {
          const double share = layer.share[static_cast<std::size_t>(i)];
          csv.add(subject.name, place.tier, place.layer, curve.name, i, share, layer.segments);
          curve.points.push_back({static_cast<double>(i), share});
        }
        panel.series.push_back(std::move(curve));
      }
      panels.push_back(std::move(panel));
    }
  }
  if (panels.empty()) return;
  save("regions", csv,
       line_chart({.title = "Attention by place: compressed memory, memory, segment",
                   .x_label = "place, 0 = oldest",
                   .y_label = "share of attention, mean over heads and queries"},
                  panels, 2));
}

}  // namespace mneme::analyze
