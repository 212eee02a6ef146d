// An evaluation over several ranks: what they tell one another of a segment.
#pragma once

#include <cstdint>

#include "host/eval/evaluator.hpp"
#include "host/eval/loss_queue.hpp"
#include "host/memory/segment/segment_hooks.hpp"
#include "host/ranks/communicator.hpp"

namespace mneme::eval {

// How far a rank is after a segment; then the sums over all ranks, and a signal that any rank has.
struct RankState {
  std::int64_t state_bytes = 0;
  std::int64_t cached_projection_bytes = 0;
  std::int64_t signal = 0;
};

// One evaluation's ranks. exchange() is collective: every rank calls it once a segment, in order.
class RankExchange {
 public:
  RankExchange(const EvaluationRanks& options, std::int64_t lanes);

  // Lanes of this rank; none for ranks beyond the lanes.
  [[nodiscard]] const ranks::LaneRange& lanes() const { return lanes_; }
  // `own`: of this rank's lanes, its tier losses and metrics as parts of the means over all lanes;
  // returns what all ranks found. Documents and distances are no part of it.
  [[nodiscard]] SegmentFindings exchange(const SegmentFindings& own) const;
  [[nodiscard]] RankState exchange(const RankState& own) const;
  // For SegmentOptions.
  [[nodiscard]] memory::SumOverProcesses sum_over_processes() const;

 private:
  ranks::Communicator& ranks_;
  ranks::LaneRange lanes_;
};

}  // namespace mneme::eval
