#include "host/stats/holm.hpp"

#include <algorithm>
#include <cstddef>
#include <numeric>

#include "host/base/error.hpp"
#include "host/base/text.hpp"

namespace mneme::stats {

std::vector<double> holm(std::span<const double> p_values) {
  for (std::size_t i = 0; i < p_values.size(); ++i) {
    if (!(p_values[i] >= 0 && p_values[i] <= 1)) {
      throw_run({.where = str("p value ", i),
                 .failed = "Holm's correction",
                 .expected = "a number from 0 to 1",
                 .got = str(p_values[i])});
    }
  }
  std::vector<std::size_t> order(p_values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return p_values[a] < p_values[b]; });
  std::vector<double> adjusted(p_values.size());
  double largest = 0;
  for (std::size_t k = 0; k < order.size(); ++k) {
    const auto remaining = static_cast<double>(order.size() - k);
    largest = std::max(largest, std::min(1.0, remaining * p_values[order[k]]));
    adjusted[order[k]] = largest;
  }
  return adjusted;
}

}  // namespace mneme::stats
