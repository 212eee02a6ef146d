// The share of a continuous memory that belongs to each part of the past.
#pragma once

#include "host/analyze/trace.hpp"

namespace mneme::analyze {

// How much of the memory belongs to the tokens of each stretch of the past, by the tokens' age: the
// sum of their Voronoi cells [infinity-former, appendix D], as a mean over the writes of all lanes.
class ShareByAge {
 public:
  // Stretch s holds the tokens after which s * stretch .. (s + 1) * stretch - 1 newer ones were
  // absorbed.
  struct Shares {
    std::vector<double> share;      // [stretches], sums to 1
    std::vector<double> remaining;  // [stretches]: tokens that have a cell, mean a write
    std::int64_t writes = 0;
  };

  // Error (kUsage) for a stretch below 1.
  explicit ShareByAge(std::int64_t stretch);
  void add(const LaneView& view);
  [[nodiscard]] std::map<TierLayer, Shares> shares() const;
  [[nodiscard]] std::int64_t stretch() const { return stretch_; }

 private:
  std::int64_t stretch_;
  std::map<TierLayer, Shares> sums_;
};

// How much of the memory belongs to each word of lane 0, during `updates` updates after the word's
// segment was stored [infinity-former, fig. 10 and 11].
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
  void add(const LaneView& view);
  // Tiers and layers in which such a write was found.
  [[nodiscard]] std::map<TierLayer, Followed> followed() const;

 private:
  struct Track {
    std::int64_t writes = 0;              // seen so far
    std::vector<std::int64_t> starts;     // first token of each write since it was empty
    std::optional<std::size_t> followed;  // its write in `starts`
    std::int64_t end = 0;                 // one past the newest word
    Followed words;
  };
  [[nodiscard]] bool is_done(const Track& track) const {
    return static_cast<std::int64_t>(track.words.size()) > updates_;
  }
  static std::vector<Word> words_of(const Track& track, const TokenCells& space);

  std::int64_t first_, updates_;
  std::map<TierLayer, Track> tracks_;
};

}  // namespace mneme::analyze
