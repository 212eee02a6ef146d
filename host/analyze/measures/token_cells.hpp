// Which part of a continuous memory belongs to which token.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "host/analyze/trace.hpp"

namespace mneme::analyze {

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
  // A memory that starts with rows at `places`: token first_token + i stands at places[i].
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

// The share of a continuous memory that belongs to each part of the past.

// The share of the memory of each stretch of the past, by age: the Voronoi view [infinity-former,
// appendix D], as a mean over all writes.
class ShareByAge {
 public:
  // Stretch s holds the tokens that s * stretch .. (s + 1) * stretch - 1 newer ones were absorbed
  // after.
  struct Shares {
    std::vector<double> share;      // [stretches], sums to 1
    std::vector<double> remaining;  // [stretches]: tokens that have a cell, mean a write
    std::int64_t writes = 0;
  };

  // Error (kUsage) for a stretch below 1.
  explicit ShareByAge(std::int64_t stretch);
  void add(const LayerView& view);
  [[nodiscard]] std::map<Place, Shares> shares() const;
  [[nodiscard]] std::int64_t stretch() const { return stretch_; }

 private:
  std::int64_t stretch_;
  std::map<Place, Shares> sums_;
};

// The share of the memory of each word of lane 0, during `updates` updates after the word's segment
// was stored [infinity-former, fig. 10 and 11].
class ShareAfterUpdates {
 public:
  struct Word {
    std::int64_t token = 0;
    std::int64_t write = 0;  // that absorbed it; 0 = the followed segment, older ones below
    double share = 0.0;      // of [0,1]; 0 = not in the memory any more
  };
  // words[k]: after k updates; all words that the memory has taken in since it began.
  using Followed = std::vector<std::vector<Word>>;

  // Follows the words of the first write, from write `first` (from 0) on, that is followed by
  // `updates` updates before the memory is emptied. Error (kUsage) for negative numbers.
  ShareAfterUpdates(std::int64_t first, std::int64_t updates);
  void add(const LayerView& view);
  // Tiers and layers in which such a write was found.
  [[nodiscard]] std::map<Place, Followed> followed() const;

 private:
  struct Track {
    std::int64_t writes = 0;              // seen so far
    std::vector<std::int64_t> starts;     // first token of each write since it began afresh
    std::optional<std::size_t> followed;  // its write in `starts`
    std::int64_t end = 0;                 // one past the newest word
    Followed words;
  };
  [[nodiscard]] bool is_done(const Track& track) const {
    return static_cast<std::int64_t>(track.words.size()) > updates_;
  }
  static std::vector<Word> choices_of(const Track& track, const TokenCells& space);

  std::int64_t first_, updates_;
  std::map<Place, Track> tracks_;
};

}  // namespace mneme::analyze
