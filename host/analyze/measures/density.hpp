// Normal attention densities over a memory that lies on [0,1].
#pragma once

#include <span>
#include <vector>

namespace mneme::analyze {

// The attention of one query and head: N(mean, deviation^2) [infinity-former, eq. 9].
struct Density {
  double mean = 0.0;
  double deviation = 1.0;  // above 0

  // Its mass below a place.
  [[nodiscard]] double below(double place) const;
};

// The mass that the densities together have between neighbouring edges (ascending): one number
// fewer than edges. What lies outside of the edges is left out.
[[nodiscard]] std::vector<double> masses_between(std::span<const Density> densities,
                                                 std::span<const double> edges);

// Edges 0, 1/bins, ..., 1.
[[nodiscard]] std::vector<double> even_edges(std::size_t bins);

}  // namespace mneme::analyze
