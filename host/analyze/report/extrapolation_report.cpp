#include "host/analyze/report/extrapolation_report.hpp"

#include <algorithm>

#include "host/analyze/report/chart.hpp"
#include "host/analyze/report/csv.hpp"

namespace mneme::analyze {

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

}  // namespace mneme::analyze
