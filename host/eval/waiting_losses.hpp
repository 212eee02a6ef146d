// Segments of an evaluation whose losses are computed later, those of several at once: the output
// layer is the largest weight of many models, and is read once for all of them.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "host/backbone/model.hpp"
#include "host/data/stream/stream.hpp"
#include "host/eval/rank_scores.hpp"

namespace mneme::eval {

class WaitingLosses {
 public:
  explicit WaitingLosses(const backbone::Model& model) : model_(model) {}

  struct Segment {
    data::TokenSegment segment;
    RankScores found;
  };

  // `found` lacks nll, correct and best; top [B,T,D].
  void add(const data::TokenSegment& segment, const at::Tensor& top, RankScores found);
  // True when more segments would take memory, delay the answer and gain little.
  [[nodiscard]] bool is_full() const;
  // The segments in their order, complete; none wait afterwards.
  [[nodiscard]] std::vector<Segment> take();
  // The most tokens whose losses are computed at once, of segments with `of_segment` tokens over
  // all lanes.
  [[nodiscard]] static std::int64_t most_rows(std::int64_t of_segment);

 private:
  const backbone::Model& model_;
  std::vector<Segment> segments_;
  std::vector<at::Tensor> tops_;  // of each, [B*T,D]
  std::int64_t rows_ = 0;         // of all tops
};

}  // namespace mneme::eval
