#include "host/validate/rounding.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

namespace mneme::validate {
namespace {

constexpr double kSpacing = 1e-5;  // a few roundings of f32 apart for values around 1
constexpr std::size_t kPoints = 12;
constexpr std::size_t kOrder = 4;
// The sum of the squares of 1, 4, 6, 4, 1: a difference of independent errors has their variance
// times this.
constexpr double kVariances = 70.0;

double rounding_on_side(const std::function<double(double)>& at_offset, double side) {
  std::array<double, kPoints> values{};
  for (std::size_t i = 0; i < kPoints; ++i)
    values[i] = at_offset(side * kSpacing * static_cast<double>(i + 1));
  for (std::size_t order = 1; order <= kOrder; ++order) {
    for (std::size_t i = 0; i + order < kPoints; ++i) values[i] = values[i + 1] - values[i];
  }
  double sum = 0.0;
  for (std::size_t i = 0; i + kOrder < kPoints; ++i) sum += values[i] * values[i];
  return std::sqrt(sum / static_cast<double>(kPoints - kOrder) / kVariances);
}

}  // namespace

double rounding_of(const std::function<double(double)>& at_offset) {
  return std::min(rounding_on_side(at_offset, 1.0), rounding_on_side(at_offset, -1.0));
}

}  // namespace mneme::validate
