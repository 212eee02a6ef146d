// Small charts, many to a drawing.
#pragma once

#include <string>
#include <vector>

#include "host/analyze/report/svg.hpp"

namespace mneme::analyze {

// One line of a chart; its points are joined in their order.
struct Series {
  std::string name;
  std::vector<SvgPoint> points;
};

// One panel of bars: bar i stands above the i-th part of the axis [from, to] cut evenly. Values are
// not negative.
struct BarPanel {
  std::string title;
  std::vector<double> values;
  double from = 0.0;
  double to = 1.0;
};

// One panel of lines.
struct LinePanel {
  std::string title;
  std::vector<Series> series;
};

// What stands around the panels of a drawing.
struct ChartText {
  std::string title;
  std::string x_label;  // of every panel's axis
  std::string y_label;
  // The y axis of lines: from 0, or from the smallest value, to the largest; or in decades from the
  // smallest positive value, where a point that is not positive is left out.
  enum class YAxis { kFromZero, kFromLeast, kLog };
  YAxis y_axis = YAxis::kFromZero;
};

// Panels row by row, `columns` in each. All panels share one y axis, from 0 to the largest
// value unless the text says otherwise; lines also share the x axis and one legend, a colour a
// series name, in the order of the names from blue to red where there are many. Without panels: the
// title alone.
[[nodiscard]] Svg bar_chart(const ChartText& text, const std::vector<BarPanel>& panels,
                            std::size_t columns);
[[nodiscard]] Svg line_chart(const ChartText& text, const std::vector<LinePanel>& panels,
                             std::size_t columns);

// Named horizontal bars, the first on top; names stand to the left, long ones with their ends.
struct NamedBar {
  std::string name;
  double value = 0.0;
};
[[nodiscard]] Svg ranking_chart(const ChartText& text, const std::vector<NamedBar>& bars);

}  // namespace mneme::analyze
