// Timing two ways of doing the same, turn by turn in one run.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "host/base/progress.hpp"

namespace mneme::bench {

inline double seconds_of(const auto& body) {
  const double start = steady_clock().seconds();
  body();
  return steady_clock().seconds() - start;
}

inline double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// The median over rounds of a round's a / b.
inline double median_ratio(const std::vector<double>& a, const std::vector<double>& b) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < a.size(); ++i) ratios.push_back(a[i] / b[i]);
  return median(ratios);
}

// Floating-point operations of one forward pass of the relative-position backbone: T tokens that
// attend to K = rows + T keys, of which nothing is skipped for causality. A multiply-add counts 2.
struct Sizes {
  double layers, width, inner, ff, vocabulary;
};
inline double forward_flops(const Sizes& s, double tokens, double keys, double predicted) {
  const double projections = 2.0 * tokens * s.inner * s.width * 4.0;  // q, k, v, output
  const double positions = 2.0 * keys * s.inner * s.width;
  const double attention = 3.0 * 2.0 * tokens * keys * s.inner;  // content, position, values
  const double feed_forward = 2.0 * 2.0 * tokens * s.width * s.ff;
  return s.layers * (projections + positions + attention + feed_forward) +
         2.0 * predicted * s.width * s.vocabulary;
}

}  // namespace mneme::bench
