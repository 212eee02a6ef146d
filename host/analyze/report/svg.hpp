// Drawings as Scalable Vector Graphics: the few shapes that charts need.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace mneme::analyze {

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

}  // namespace mneme::analyze
