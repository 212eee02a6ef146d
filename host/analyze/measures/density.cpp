#include "host/analyze/measures/density.hpp"

#include <cmath>
#include <numbers>

namespace mneme::analyze {

double Density::below(double place) const {
  return 0.5 * std::erfc((mean - place) / (deviation * std::numbers::sqrt2));
}

std::vector<double> masses_between(std::span<const Density> densities,
                                   std::span<const double> edges) {
  std::vector<double> masses(edges.empty() ? 0 : edges.size() - 1);
  for (const Density& density : densities) {
    double before = masses.empty() ? 0.0 : density.below(edges.front());
    for (std::size_t i = 0; i < masses.size(); ++i) {
      const double next = density.below(edges[i + 1]);
      masses[i] += next - before;
      before = next;
    }
  }
  return masses;
}

std::vector<double> even_edges(std::size_t bins) {
  std::vector<double> edges(bins + 1);
  for (std::size_t k = 0; k <= bins; ++k) {
    edges[k] = static_cast<double>(k) / static_cast<double>(bins);
  }
  return edges;
}

}  // namespace mneme::analyze
