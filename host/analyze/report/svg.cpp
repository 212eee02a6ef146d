#include "host/analyze/report/svg.hpp"

#include <array>

#include "host/base/file/file.hpp"
#include "host/base/text.hpp"

namespace mneme::analyze {
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

}  // namespace mneme::analyze
