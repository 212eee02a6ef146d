// Specifications of the charts that analyses share: lines and bars in panels, rankings.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "host/base/text.hpp"

namespace mneme::figure {

// An axis of numbers, or of words where `words` are given.
struct Axis {
  enum class Scale { kFromZero, kFromLeast, kLog };

  std::string field = {};
  std::string title = {};  // with the unit
  Scale scale = Scale::kFromLeast;
  bool is_whole = false;                // ticks at whole numbers only
  std::vector<std::string> words = {};  // the axis's places in order
  std::string format = "";              // of d3-format; "" = Vega's choice
};

[[nodiscard]] inline Axis from_zero(std::string field, std::string title) {
  return {.field = std::move(field), .title = std::move(title), .scale = Axis::Scale::kFromZero};
}

// What colours mean.
struct Colour {
  std::string field = {};
  std::string title = {};               // of the legend; "" = none
  std::vector<std::string> names = {};  // in the legend's order
  bool is_ordered = false;              // where they are many: a scale from dark to light
  int legend_width = 600;               // pixels
};

// Panels side by side, one a name, with one title each and the same axes.
struct Panels {
  std::string field = {};
  std::vector<std::string> names = {};
  std::size_t columns = 2;
};

// One entry of a tooltip; `format` is one of d3-format, "" = as it is.
struct Tip {
  std::string field;
  std::string title;
  std::string format = "";
};

// A chart over `values`, an array with one object a point: its fields are those that the parts
// name.
struct Chart {
  Json values = Json::array();
  Axis x = {}, y = {};
  Colour colour = {};  // no names: one colour, no legend
  Panels panels = {};  // one name or none: one chart as wide as its place
  std::vector<Tip> tips = {};
  std::string low = {}, high = {};  // of lines: fields of y between which a band is; "" = none
};

// Points joined by lines, a line a colour. Points are drawn where a line has few; on a scale of
// decades those that are not above 0 are left out.
[[nodiscard]] Json lines(const Chart& chart);
// Bars over intervals of x from the field of chart.x to `x_end`; with more than one colour, steps
// through the intervals' middles instead, because bars would hide each other.
[[nodiscard]] Json bars(const Chart& chart, const std::string& x_end);
// Horizontal bars in the order of the values, the first on top, under names in the field `name`,
// which are made different where they are equal. Panels have names of their own.
[[nodiscard]] Json ranking(const Chart& chart, const std::string& name);

// --- Parts, for charts of other kinds ---

// A channel of numbers or words: {"field", "title", "type", "scale", "axis"}.
[[nodiscard]] Json axis_channel(const Axis& axis);
// Channels that tell names apart; those with the same legend share it. Names behind the last colour
// have the colours again, and another one of `kinds`: dashes() or shapes.
[[nodiscard]] Json colour_channel(const Colour& colour);
[[nodiscard]] Json repeated_channel(const Colour& colour, const std::vector<Json>& kinds);
// One with a range of its own, an entry a name.
[[nodiscard]] Json range_channel(const Colour& colour, Json range);
// One entry of a tooltip.
[[nodiscard]] Json tip(const std::string& field, const std::string& title,
                       const std::string& format = "");
// Layers over `values`, as wide as their place. `fit`: what the height is of: "fit-x" of the area
// of the marks, "fit" of the whole figure.
[[nodiscard]] Json layered(Json values, Json layers, Json height, const char* fit);

}  // namespace mneme::figure
