// An evaluation over several ranks: what they tell one another of a segment.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "host/data/stream/stream.hpp"
#include "host/eval/evaluator.hpp"
#include "host/memory/segment/segment_hooks.hpp"
#include "host/ranks/communicator.hpp"

namespace mneme::eval {

// What a rank found in its lanes of a segment, and, after exchange(), what all ranks found.
struct RankScores {
  // Of the places [B,T] of the lanes, as in SegmentScores.
  std::vector<double> nll;
  std::vector<std::uint8_t> correct;
  std::vector<std::int64_t> best;
  // Parts of the means over all lanes, by name, then the means.
  std::map<std::string, double> losses, metrics;
  std::int64_t read_rows = 0;  // the most

  // Takes nll, correct and best of an output.
  void read(const backbone::Output& out);
};

// How far a rank is after a segment; then the sums over all ranks, and a signal that any rank has.
struct RankState {
  std::int64_t state_bytes = 0;
  std::int64_t cached_projection_bytes = 0;
  std::int64_t signal = 0;
};

// One evaluation's ranks. exchange() is collective: every rank calls it once a segment, in order.
class RankExchange {
 public:
  RankExchange(const RankOptions& options, std::int64_t lanes);

  // Lanes of this rank; none for ranks beyond the lanes.
  [[nodiscard]] const ranks::LaneRange& lanes() const { return lanes_; }
  [[nodiscard]] RankScores exchange(const RankScores& own) const;
  [[nodiscard]] RankState exchange(const RankState& own) const;
  // SegmentInput::sum.
  [[nodiscard]] memory::SumOverProcesses sum_of_weights() const;

 private:
  ranks::Communicator& ranks_;
  ranks::LaneRange lanes_;
};

}  // namespace mneme::eval
