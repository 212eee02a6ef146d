// The figures of a report: Vega-Lite specifications with their data inside.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "host/base/text.hpp"
#include "host/figure/charts.hpp"
#include "host/figure/figure.hpp"
#include "host/report/comparison/comparison.hpp"
#include "host/report/differences/differences.hpp"

namespace mneme::report {

using figure::as_file;
// Sections: "sweep" | "differences" | "training" | "position" | "cost" | "diagnostics".
using figure::Figure;

// All figures of a comparison, in the page's order: those of a sweep first. Keys are different, and
// names of files.
[[nodiscard]] std::vector<Figure> figures(const Comparison& comparison,
                                          const std::vector<Difference>& differences);

// --- The families, a file each ---

void add_difference_figures(const Comparison& comparison, const std::vector<Difference>& all,
                            std::vector<Figure>& out);
void add_curve_figures(const Comparison& comparison, std::vector<Figure>& out);
void add_bucket_figures(const Comparison& comparison, std::vector<Figure>& out);
// Heat maps of needles: a row an arm, or, with several lengths, a figure an arm and a row a length.
// Of the task retention the curve over delays.
void add_depth_figures(const Comparison& comparison, std::vector<Figure>& out);
// With `is_sweep` the figures over the setting of a sweep; else those over costs.
void add_cost_figures(const Comparison& comparison, bool is_sweep, std::vector<Figure>& out);
void add_diagnostic_figures(const Comparison& comparison, std::vector<Figure>& out);
// Of stored diagnostics.
void add_probe_figures(const Comparison& comparison, std::vector<Figure>& out);

// --- Parts that the families share ---

// A specification of layers over `values`, as wide as its place.
[[nodiscard]] Json layered(Json values, Json layers, int height);

using figure::Axis;
using figure::axis_channel;
using figure::tip;

// The colour of an arm, the same in all figures, with a legend. Arms behind the seventh have the
// colours again: dash_of_arms and shape_of_arms tell them apart.
[[nodiscard]] Json colour_of_arms(const Comparison& comparison);
[[nodiscard]] Json dash_of_arms(const Comparison& comparison);
[[nodiscard]] Json shape_of_arms(const Comparison& comparison);

// Mean, lowest and highest of values that are known; absent when none is.
struct Band {
  double mean = 0.0;
  double low = 0.0;
  double high = 0.0;
};
[[nodiscard]] std::optional<Band> band_of(const std::vector<double>& values);

// Lines with bands over seeds: layers over values with arm, x, mean, low and high. `x` and `y` are
// channels without a field.
[[nodiscard]] Json line_layers(const Comparison& comparison, Json x, Json y, bool has_points,
                               const Json& tooltip);

// What lines and bands show: "Lines are means of 3 seeds, bands reach from the lowest to the
// highest." or "One seed."
[[nodiscard]] std::string band_words(const Comparison& comparison);

}  // namespace mneme::report
