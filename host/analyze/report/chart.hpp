// SVG drawings, charts of many small panels, and CSV tables.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "host/base/text.hpp"

namespace mneme::analyze {

// --- Drawings as Scalable Vector Graphics: the few shapes that charts need ---

struct SvgPoint {
  double x = 0.0;
  double y = 0.0;
};

// Where a text stands relative to its place.
enum class Anchor { kStart, kMiddle, kEnd };

// A drawing of fixed size; coordinates are pixels, y grows downwards. Text is escaped; control
// characters, which XML does not allow, become U+FFFD.
class Svg {
 public:
  Svg(double width, double height);

  void rectangle(double x, double y, double width, double height, std::string_view fill);
  void line(SvgPoint from, SvgPoint to, std::string_view stroke, double width = 1.0);
  void polyline(const std::vector<SvgPoint>& points, std::string_view stroke, double width = 1.5);
  void circle(SvgPoint centre, double radius, std::string_view fill);
  void text(SvgPoint at, std::string_view text, Anchor anchor = Anchor::kStart, double size = 11.0);

  // The whole document.
  [[nodiscard]] std::string document() const;
  // Error (kRun) when the file cannot be written.
  void save(const std::filesystem::path& path) const;

 private:
  double width_, height_;
  std::string body_;
};

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

// Title, labels and scale of a drawing.
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

// --- Tables as comma-separated values [RFC 4180] ---

// Rows of cells under a heading line. Cells that hold commas, quotes or line ends are quoted.
class Csv {
 public:
  explicit Csv(const std::vector<std::string>& headings);

  // One line. Numbers of type double are written so that they read back exactly. A row of another
  // length than the headings is a mistake of ours (std::logic_error).
  template <typename... Cells>
  void add(const Cells&... cells) {
    add_row({cell(cells)...});
  }
  void add_row(const std::vector<std::string>& cells);

  [[nodiscard]] const std::string& text() const { return text_; }
  // Error (kRun) when the file cannot be written.
  void save(const std::filesystem::path& path) const;

 private:
  template <typename T>
  static std::string cell(const T& value) {
    if constexpr (std::is_floating_point_v<T>) {
      return format_exact(static_cast<double>(value));
    } else {
      return str(value);
    }
  }

  std::size_t columns_;
  std::string text_;
};

}  // namespace mneme::analyze
