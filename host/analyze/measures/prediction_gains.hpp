// Targets that one evaluation predicts better than another, with the memory words that received
// attention.
#pragma once

#include <cstdint>
#include <vector>

#include "host/analyze/trace.hpp"

namespace mneme::analyze {

// The loss of every target of an evaluation, lane by lane in the order of the text.
struct TargetLosses {
  struct Target {
    std::int64_t input = 0;   // the token that predicts
    std::int64_t target = 0;  // data::kNoTarget = none
    double nll = 0.0;         // nats
  };

  // nll [B,T] as in scores::SegmentLosses.
  void add(const data::TokenSegment& segment, const std::vector<double>& nll);
  // By lane; the place in a lane is the number of the token that predicts.
  std::vector<std::vector<Target>> lanes;
};

// A token of the memory and its part of one query's attention.
struct MemoryWord {
  TierLayer where;
  std::int64_t token = 0;  // of the lane's history
  double mass = 0.0;       // mean over heads
};

// One target that the other evaluation predicts worse.
struct GainedTarget {
  std::int64_t lane = 0;
  std::int64_t token = 0;   // of the lane's history: the one that predicts
  std::int64_t target = 0;  // id
  double nll = 0.0;
  double other_nll = 0.0;
  std::vector<MemoryWord> looked_at;  // by tier and layer, largest mass first

  [[nodiscard]] double gain() const { return other_nll - nll; }
};

// Keeps the `count` targets of the largest gain over another evaluation of the same text, with the
// memory words that got more than `threshold` of a layer's attention, averaged over its heads
// [infinity-former, fig. 8 and 9].
class PredictionGains {
 public:
  // `other` outlives it and is complete.
  PredictionGains(const TargetLosses& other, std::size_t count, double threshold)
      : other_(other), count_(count), threshold_(threshold) {}

  // Adds a segment's losses; call add() with its views afterwards. Error (kUsage) naming lane and
  // position when the other evaluation read other tokens.
  void begin(const data::TokenSegment& segment, const std::vector<double>& nll);
  void add(const LaneView& view);

  // Largest gain first; only those that are predicted better.
  [[nodiscard]] const std::vector<GainedTarget>& targets() const { return words_; }
  // Targets that both evaluations have, those with a gain, and the mean gain over all.
  struct Summary {
    std::int64_t targets = 0;
    std::int64_t better = 0;
    double mean_gain = 0.0;  // nats
  };
  [[nodiscard]] Summary summary() const;

 private:
  void insert(const GainedTarget& word);

  const TargetLosses& other_;
  std::size_t count_;
  double threshold_;
  std::vector<std::int64_t> seen_;                       // tokens of each lane before this segment
  std::vector<GainedTarget> words_;                      // by falling gain
  std::vector<std::int64_t> segment_from_, segment_to_;  // each lane's tokens in this segment
  std::int64_t targets_ = 0;
  std::int64_t better_ = 0;
  double gain_ = 0.0;
};

}  // namespace mneme::analyze
