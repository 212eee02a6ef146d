// Which part of a continuous memory belongs to which token.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

namespace mneme::analyze {

// --- Normal attention densities over a memory that lies on [0,1] ---

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

// The memory of one layer and lane as cells of [0,1], each of one absorbed token.
//
// A write regresses rows onto the memory at certain points; a point's Voronoi cell is what lies
// nearer to it than to any other point, cut off at 0 and 1 ("memory space" [infinity-former,
// appendix D]). A new row's point belongs to its token; a sample's point to the token in whose cell
// the old memory was sampled. So a token of the past that was sampled several times has several
// cells, and one that was not sampled has none from then on.
//
// Places are numbers in [0,1]; tokens are numbered by the caller.
class TokenCells {
 public:
  // Edges of the cells, ascending from 0 to 1: one more than there are tokens. Empty memory: none.
  [[nodiscard]] const std::vector<double>& edges() const { return edges_; }
  // The cells' tokens, in the order of the edges; a token may come several times.
  [[nodiscard]] const std::vector<std::int64_t>& tokens() const { return tokens_; }
  [[nodiscard]] bool is_empty() const { return tokens_.empty(); }

  void clear();
  // A memory that starts with rows at `places`: token first_token + i is at places[i].
  void begin(std::span<const double> places, std::int64_t first_token);
  // A write onto this memory. `samples`: where the old memory was sampled; `places`: the points of
  // the write, first those of the samples, in their order, then those of the new rows, whose tokens
  // are first_token, first_token + 1, ... Error (kRun) when there are fewer places than samples,
  // when a sample or place is not in [0,1], or when the memory is empty.
  void update(std::span<const double> samples, std::span<const double> places,
              std::int64_t first_token);

  // The token whose cell holds a place; an edge belongs to the cell on its right, 1 to the last
  // one. The memory is not empty.
  [[nodiscard]] std::int64_t token_at(double place) const;
  // The summed width of every token that has a cell; the widths sum to 1.
  [[nodiscard]] std::map<std::int64_t, double> shares() const;

 private:
  struct Point {
    double place = 0.0;
    std::int64_t token = 0;
  };
  void assign(std::vector<Point> points);

  std::vector<double> edges_;
  std::vector<std::int64_t> tokens_;
};

// m / count, m = 1 .. count: the samples of a memory that does not choose them [infinity-former,
// eq. 14].
[[nodiscard]] std::vector<double> even_samples(std::int64_t count);

}  // namespace mneme::analyze
