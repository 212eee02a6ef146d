#include "host/analyze/chart.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "host/base/text.hpp"

namespace mneme::analyze {
namespace {

constexpr double kMargin = 44.0;  // left of each panel: its y axis
constexpr double kHead = 34.0;    // above the panels: title and legend
constexpr double kFoot = 22.0;    // below the panels: the x label
constexpr double kGap = 34.0;     // below each panel: its x axis; above: its title
constexpr std::string_view kAxis = "#666666";
constexpr std::string_view kBar = "#4477aa";
// Told apart by readers with any colour vision [Paul Tol, "bright"].
constexpr std::array<std::string_view, 7> kColours = {"#4477aa", "#ee6677", "#228833", "#ccbb44",
                                                      "#66ccee", "#aa3377", "#bbbbbb"};

std::string tick(double value) {
  const double size = std::abs(value);
  if (value == std::round(value) && size < 1e6) return format_number(value, 0);
  if (size >= 0.01 && size < 1e4) return format_number(value, size < 1.0 ? 3 : 1);
  std::string text = str(value);  // six digits, with an exponent where it is shorter
  return text;
}

// The end of a text, at most so many characters of UTF-8.
std::string end_of(const std::string& text, std::size_t most) {
  std::size_t kept = text.size();
  std::size_t characters = 0;
  for (std::size_t i = text.size(); i-- > 0;) {
    const bool is_start = (static_cast<unsigned char>(text[i]) & 0xC0U) != 0x80U;
    if (!is_start) continue;
    if (++characters > most) return "..." + text.substr(kept);
    kept = i;
  }
  return text;
}

// Panels of one size in rows, and the values that their corners stand for.
class Grid {
 public:
  Grid(const ChartText& text, std::size_t panels, std::size_t columns, double width, double height)
      : columns_(std::max<std::size_t>(1, std::min(columns, std::max<std::size_t>(1, panels)))),
        width_(width),
        height_(height),
        svg_(std::max(360.0, static_cast<double>(columns_) * (width + kMargin) + kMargin),
             kHead + static_cast<double>((panels + columns_ - 1) / columns_) * (height + kGap) +
                 kFoot) {
    svg_.text({8.0, 15.0}, text.title, Anchor::kStart, 13.0);
    const double rows = std::ceil(static_cast<double>(panels) / static_cast<double>(columns_));
    if (panels > 0)
      svg_.text({8.0, kHead + rows * (height + kGap) + 12.0},
                str("x: ", text.x_label, "; y: ", text.y_label), Anchor::kStart, 10.0);
  }

  void scale_x(double from, double to) { x_ = {from, to > from ? to : from + 1.0}; }
  void scale_y(double most) { most_ = most > 0.0 ? most : 1.0; }

  void begin(std::size_t panel, const std::string& title) {
    left_ = kMargin + static_cast<double>(panel % columns_) * (width_ + kMargin);
    top_ = kHead + 14.0 + static_cast<double>(panel / columns_) * (height_ + kGap);
    svg_.text({left_, top_ - 4.0}, title, Anchor::kStart, 10.0);
    svg_.line({left_, top_ + height_}, {left_ + width_, top_ + height_}, kAxis);
    svg_.line({left_, top_}, {left_, top_ + height_}, kAxis);
    svg_.text({left_ - 3.0, top_ + 8.0}, tick(most_), Anchor::kEnd, 8.0);
    svg_.text({left_ - 3.0, top_ + height_}, "0", Anchor::kEnd, 8.0);
    svg_.text({left_, top_ + height_ + 10.0}, tick(x_.x), Anchor::kStart, 8.0);
    svg_.text({left_ + width_, top_ + height_ + 10.0}, tick(x_.y), Anchor::kEnd, 8.0);
  }
  SvgPoint place(double x, double y) const {
    return {left_ + (x - x_.x) / (x_.y - x_.x) * width_, top_ + height_ - y / most_ * height_};
  }
  Svg& svg() { return svg_; }

 private:
  std::size_t columns_;
  double width_, height_;
  Svg svg_;
  SvgPoint x_ = {0.0, 1.0};  // values at the left and right end
  double most_ = 1.0;
  double left_ = 0.0, top_ = 0.0;
};

// The extent of every panel's points.
void scale(Grid& grid, const std::vector<LinePanel>& panels) {
  double from = INFINITY, to = -INFINITY, most = 0.0;
  for (const LinePanel& panel : panels) {
    for (const Series& series : panel.series) {
      for (const SvgPoint& point : series.points) {
        from = std::min(from, point.x);
        to = std::max(to, point.x);
        most = std::max(most, point.y);
      }
    }
  }
  if (from <= to) grid.scale_x(from, to);
  grid.scale_y(most);
}

// The place of a name among all series names, in the order in which they come.
std::vector<std::string> names_of(const std::vector<LinePanel>& panels) {
  std::vector<std::string> names;
  for (const LinePanel& panel : panels) {
    for (const Series& series : panel.series) {
      if (std::ranges::find(names, series.name) == names.end()) names.push_back(series.name);
    }
  }
  return names;
}

std::string_view colour_of(const std::vector<std::string>& names, const std::string& name) {
  const auto place = std::ranges::find(names, name) - names.begin();
  return kColours[static_cast<std::size_t>(place) % kColours.size()];
}

}  // namespace

Svg bar_chart(const ChartText& text, const std::vector<BarPanel>& panels, std::size_t columns) {
  Grid grid(text, panels.size(), columns, 130.0, 70.0);
  double most = 0.0;
  for (const BarPanel& panel : panels) {
    for (const double value : panel.values) most = std::max(most, value);
  }
  grid.scale_y(most);
  for (std::size_t p = 0; p < panels.size(); ++p) {
    const BarPanel& panel = panels[p];
    grid.scale_x(panel.from, panel.to);
    grid.begin(p, panel.title);
    const double step = (panel.to - panel.from) / static_cast<double>(panel.values.size());
    for (std::size_t i = 0; i < panel.values.size(); ++i) {
      const double x = panel.from + step * static_cast<double>(i);
      const SvgPoint top = grid.place(x, panel.values[i]);
      const SvgPoint foot = grid.place(x + step, 0.0);
      grid.svg().rectangle(top.x, top.y, foot.x - top.x, foot.y - top.y, kBar);
    }
  }
  return std::move(grid.svg());
}

Svg line_chart(const ChartText& text, const std::vector<LinePanel>& panels, std::size_t columns) {
  Grid grid(text, panels.size(), columns, 300.0, 150.0);
  const std::vector<std::string> names = names_of(panels);
  double left = 8.0;
  for (const std::string& name : names) {
    grid.svg().line({left, 24.0}, {left + 14.0, 24.0}, colour_of(names, name), 2.0);
    grid.svg().text({left + 18.0, 28.0}, name, Anchor::kStart, 10.0);
    left += 30.0 + 6.0 * static_cast<double>(name.size());
  }
  scale(grid, panels);
  for (std::size_t p = 0; p < panels.size(); ++p) {
    grid.begin(p, panels[p].title);
    for (const Series& series : panels[p].series) {
      std::vector<SvgPoint> points;
      for (const SvgPoint& point : series.points) points.push_back(grid.place(point.x, point.y));
      const std::string_view colour = colour_of(names, series.name);
      grid.svg().polyline(points, colour);
      if (points.size() > 40) continue;
      for (const SvgPoint& point : points) grid.svg().circle(point, 2.0, colour);
    }
  }
  return std::move(grid.svg());
}

Svg ranking_chart(const ChartText& text, const std::vector<NamedBar>& bars) {
  constexpr double kNames = 260.0, kWidth = 300.0, kLine = 16.0;
  constexpr std::size_t kCharacters = 42;  // that kNames has place for
  Svg svg(kNames + kWidth + 80.0, kHead + kLine * static_cast<double>(bars.size()) + kFoot);
  svg.text({8.0, 15.0}, text.title, Anchor::kStart, 13.0);
  double most = 0.0;
  for (const NamedBar& bar : bars) most = std::max(most, bar.value);
  double y = kHead;
  for (const NamedBar& bar : bars) {
    const double width = most > 0.0 ? std::max(0.0, bar.value) / most * kWidth : 0.0;
    svg.text({kNames - 6.0, y + 11.0}, end_of(bar.name, kCharacters), Anchor::kEnd, 10.0);
    svg.rectangle(kNames, y + 2.0, width, kLine - 4.0, kBar);
    svg.text({kNames + width + 4.0, y + 11.0}, tick(bar.value), Anchor::kStart, 9.0);
    y += kLine;
  }
  svg.text({kNames, y + 14.0}, text.x_label, Anchor::kStart, 10.0);
  return svg;
}

}  // namespace mneme::analyze
