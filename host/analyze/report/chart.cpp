#include "host/analyze/report/chart.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <stdexcept>

#include "host/base/file/file.hpp"
#include "host/base/text.hpp"

namespace mneme::analyze {
namespace {

using YAxis = ChartText::YAxis;

constexpr double kMargin = 44.0;  // left of each panel: its y axis
constexpr double kHead = 34.0;    // above the panels: title and legend
constexpr double kLegendLine = 14.0;
constexpr double kFoot = 22.0;  // below the panels: the x label
constexpr double kGap = 34.0;   // below each panel: its x axis; above: its title
constexpr std::string_view kAxis = "#666666";
constexpr std::string_view kBar = "#4477aa";
// Colours that are distinct with any colour vision [Paul Tol, "bright"].
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

// Many names: from blue over green to red, so that neighbours look alike.
std::string ramp(std::size_t place, std::size_t count) {
  const double part = static_cast<double>(place) / static_cast<double>(count - 1);
  return str("hsl(", format_number(240.0 * (1.0 - part), 0), ",70%,45%)");
}

std::string colour_of(const std::vector<std::string>& names, const std::string& name) {
  const auto place = static_cast<std::size_t>(std::ranges::find(names, name) - names.begin());
  if (names.size() > kColours.size()) return ramp(place, names.size());
  return std::string(kColours[place]);
}

// Lays out panels of one size in rows and maps values to pixels.
class Grid {
 public:
  // legend: names that stand below the title.
  Grid(const ChartText& text, std::size_t panels, std::size_t columns, double width, double height,
       const std::vector<std::string>& legend = {})
      : columns_(std::max<std::size_t>(1, std::min(columns, std::max<std::size_t>(1, panels)))),
        width_(width),
        height_(height),
        whole_(std::max(360.0, static_cast<double>(columns_) * (width + kMargin) + kMargin)),
        head_(kHead + kLegendLine * static_cast<double>(draw_legend(legend, nullptr))),
        svg_(whole_, head_ +
                         static_cast<double>((panels + columns_ - 1) / columns_) * (height + kGap) +
                         kFoot) {
    svg_.text({8.0, 15.0}, text.title, Anchor::kStart, 13.0);
    const double rows = std::ceil(static_cast<double>(panels) / static_cast<double>(columns_));
    if (panels > 0)
      svg_.text({8.0, head_ + rows * (height + kGap) + 12.0},
                str("x: ", text.x_label, "; y: ", text.y_label), Anchor::kStart, 10.0);
    draw_legend(legend, &svg_);
  }

  void scale_x(double from, double to) { x_ = {from, to > from ? to : from + 1.0}; }
  void scale_y(double least, double most) {
    least_ = least;
    most_ = most > least ? most : least + 1.0;
  }
  // In decades, both above 0.
  void scale_log_y(double least, double most) {
    is_log_ = true;
    least_ = least;
    most_ = most > least ? most : 10.0 * least;
  }

  void begin(std::size_t panel, const std::string& title) {
    left_ = kMargin + static_cast<double>(panel % columns_) * (width_ + kMargin);
    top_ = head_ + 14.0 + static_cast<double>(panel / columns_) * (height_ + kGap);
    svg_.text({left_, top_ - 4.0}, title, Anchor::kStart, 10.0);
    svg_.line({left_, top_ + height_}, {left_ + width_, top_ + height_}, kAxis);
    svg_.line({left_, top_}, {left_, top_ + height_}, kAxis);
    svg_.text({left_ - 3.0, top_ + 8.0}, tick(most_), Anchor::kEnd, 8.0);
    svg_.text({left_ - 3.0, top_ + height_}, tick(least_), Anchor::kEnd, 8.0);
    svg_.text({left_, top_ + height_ + 10.0}, tick(x_.x), Anchor::kStart, 8.0);
    svg_.text({left_ + width_, top_ + height_ + 10.0}, tick(x_.y), Anchor::kEnd, 8.0);
  }
  SvgPoint place(double x, double y) const {
    const double part =
        is_log_ ? std::log(y / least_) / std::log(most_ / least_) : (y - least_) / (most_ - least_);
    return {left_ + (x - x_.x) / (x_.y - x_.x) * width_, top_ + height_ - part * height_};
  }
  Svg& svg() { return svg_; }

 private:
  // Draws the names in lines of the drawing's width; returns how many lines the first one is
  // followed by. `svg` may be null: then they are only counted.
  std::size_t draw_legend(const std::vector<std::string>& names, Svg* svg) const {
    double left = 8.0;
    std::size_t line = 0;
    for (const std::string& name : names) {
      const double width = 30.0 + 6.0 * static_cast<double>(name.size());
      if (left > 8.0 && left + width > whole_) {
        left = 8.0;
        ++line;
      }
      const double y = 24.0 + kLegendLine * static_cast<double>(line);
      if (svg != nullptr) {
        svg->line({left, y}, {left + 14.0, y}, colour_of(names, name), 2.0);
        svg->text({left + 18.0, y + 4.0}, name, Anchor::kStart, 10.0);
      }
      left += width;
    }
    return line;
  }

  std::size_t columns_;
  double width_, height_;
  double whole_;  // width of the drawing
  double head_;   // above the panels
  Svg svg_;
  SvgPoint x_ = {0.0, 1.0};  // values at the left and right end
  bool is_log_ = false;
  double least_ = 0.0;
  double most_ = 1.0;
  double left_ = 0.0, top_ = 0.0;
};

// The extent of every panel's points.
void scale(Grid& grid, const std::vector<LinePanel>& panels, YAxis axis) {
  double from = INFINITY, to = -INFINITY, least = INFINITY, most = 0.0;
  for (const LinePanel& panel : panels) {
    for (const Series& series : panel.series) {
      for (const SvgPoint& point : series.points) {
        from = std::min(from, point.x);
        to = std::max(to, point.x);
        most = std::max(most, point.y);
        if (axis != YAxis::kLog || point.y > 0.0) least = std::min(least, point.y);
      }
    }
  }
  if (from <= to) grid.scale_x(from, to);
  if (axis == YAxis::kLog && most > 0.0) {
    grid.scale_log_y(least, most);
  } else {
    grid.scale_y(axis == YAxis::kFromLeast && least <= most ? least : 0.0, most);
  }
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

}  // namespace

Svg bar_chart(const ChartText& text, const std::vector<BarPanel>& panels, std::size_t columns) {
  Grid grid(text, panels.size(), columns, 130.0, 70.0);
  double most = 0.0;
  for (const BarPanel& panel : panels) {
    for (const double value : panel.values) most = std::max(most, value);
  }
  grid.scale_y(0.0, most);
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
  const std::vector<std::string> names = names_of(panels);
  Grid grid(text, panels.size(), columns, 300.0, 150.0, names);
  scale(grid, panels, text.y_axis);
  for (std::size_t p = 0; p < panels.size(); ++p) {
    grid.begin(p, panels[p].title);
    for (const Series& series : panels[p].series) {
      std::vector<SvgPoint> points;
      for (const SvgPoint& point : series.points) {
        if (text.y_axis == YAxis::kLog && point.y <= 0.0) continue;
        points.push_back(grid.place(point.x, point.y));
      }
      const std::string colour = colour_of(names, series.name);
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

namespace {

// Two digits after the point: a hundredth of a pixel.
std::string px(double value) { return format_number(value, 2); }

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out +=
            static_cast<unsigned char>(c) < 0x20 ? std::string("\xEF\xBF\xBD") : std::string(1, c);
    }
  }
  return out;
}

constexpr std::array<std::string_view, 3> kAnchors = {"start", "middle", "end"};

}  // namespace

Svg::Svg(double width, double height) : width_(width), height_(height) {
  rectangle(0.0, 0.0, width, height, "white");
}

void Svg::rectangle(double x, double y, double width, double height, std::string_view fill) {
  body_ += str("<rect x=\"", px(x), "\" y=\"", px(y), "\" width=\"", px(width), "\" height=\"",
               px(height), "\" fill=\"", fill, "\"/>\n");
}

void Svg::line(SvgPoint from, SvgPoint to, std::string_view stroke, double width) {
  body_ += str("<line x1=\"", px(from.x), "\" y1=\"", px(from.y), "\" x2=\"", px(to.x), "\" y2=\"",
               px(to.y), "\" stroke=\"", stroke, "\" stroke-width=\"", px(width), "\"/>\n");
}

void Svg::polyline(const std::vector<SvgPoint>& points, std::string_view stroke, double width) {
  std::string places;
  for (const SvgPoint& point : points) {
    places += str(places.empty() ? "" : " ", px(point.x), ',', px(point.y));
  }
  body_ += str("<polyline points=\"", places, "\" fill=\"none\" stroke=\"", stroke,
               "\" stroke-width=\"", px(width), "\"/>\n");
}

void Svg::circle(SvgPoint centre, double radius, std::string_view fill) {
  body_ += str("<circle cx=\"", px(centre.x), "\" cy=\"", px(centre.y), "\" r=\"", px(radius),
               "\" fill=\"", fill, "\"/>\n");
}

void Svg::text(SvgPoint at, std::string_view text, Anchor anchor, double size) {
  body_ += str("<text x=\"", px(at.x), "\" y=\"", px(at.y), "\" font-size=\"", px(size),
               "\" text-anchor=\"", kAnchors.at(static_cast<std::size_t>(anchor)), "\">",
               escaped(text), "</text>\n");
}

std::string Svg::document() const {
  return str("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"", px(width_), "\" height=\"",
             px(height_), "\" viewBox=\"0 0 ", px(width_), ' ', px(height_),
             "\" font-family=\"sans-serif\">\n", body_, "</svg>\n");
}

void Svg::save(const std::filesystem::path& path) const { write_file_atomic(path, document()); }

namespace {

std::string quoted(const std::string& cell) {
  if (cell.find_first_of(",\"\r\n") == std::string::npos) return cell;
  std::string out = "\"";
  for (const char c : cell) {
    if (c == '"') out += '"';
    out += c;
  }
  return out + '"';
}

}  // namespace

Csv::Csv(const std::vector<std::string>& headings) : columns_(headings.size()) {
  add_row(headings);
}

void Csv::add_row(const std::vector<std::string>& cells) {
  if (cells.size() != columns_) {
    throw std::logic_error(str("csv: ", columns_, " columns, a row of ", cells.size()));
  }
  for (std::size_t i = 0; i < cells.size(); ++i) {
    if (i > 0) text_ += ',';
    text_ += quoted(cells[i]);
  }
  text_ += '\n';
}

void Csv::save(const std::filesystem::path& path) const { write_file_atomic(path, text_); }

}  // namespace mneme::analyze
