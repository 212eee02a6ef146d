// Where in its memory a layer looks, and at which tokens of the past.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "host/analyze/trace.hpp"

namespace mneme::analyze {

// A head of a place.
struct HeadPlace {
  Place place;
  std::int64_t head = 0;

  friend auto operator<=>(const HeadPlace&, const HeadPlace&) = default;
};

// The attention given to each region of the memory [infinity-former, fig. 7].
class AttentionHistogram {
 public:
  struct Head {
    std::vector<double> mass;  // [bins] of [0,1]: the densities' mass, mean over queries
    std::int64_t queries = 0;
    double mean_place = 0.0;      // of the densities' means
    double mean_deviation = 0.0;  // of their standard deviations
  };

  // Error (kUsage) for no bin.
  explicit AttentionHistogram(std::int64_t bins);
  void add(const LayerView& view);
  [[nodiscard]] std::map<HeadPlace, Head> heads() const;

 private:
  std::vector<double> edges_;
  std::map<HeadPlace, Head> sums_;
};

// A token of the past and the attention that it received.
struct AttendedToken {
  std::int64_t lane = 0;
  std::int64_t token = 0;  // of the lane's history
  double mass = 0.0;       // of all queries' densities in the token's cells
  double share = 0.0;      // of what all tokens received
};

// The past tokens that are attended most: each density's mass in the cells of each token.
class TokenAttention {
 public:
  void add(const LayerView& view);
  // The `count` tokens of the largest mass, largest first, equal ones in the text's order: of each
  // head, and over all layers and heads.
  [[nodiscard]] std::map<HeadPlace, std::vector<AttendedToken>> by_head(std::size_t count) const;
  [[nodiscard]] std::vector<AttendedToken> overall(std::size_t count) const;

 private:
  // By lane and token.
  using Masses = std::map<std::pair<std::int64_t, std::int64_t>, double>;
  static std::vector<AttendedToken> largest(const Masses& masses, std::size_t count);

  std::map<HeadPlace, Masses> masses_;
};

// The mass that densities together have in each token's cells.
[[nodiscard]] std::map<std::int64_t, double> token_masses(std::span<const Density> densities,
                                                          const MemorySpace& space);

}  // namespace mneme::analyze
