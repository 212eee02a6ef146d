// Segments of an evaluation between the model's pass and the sums.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "host/backbone/model.hpp"
#include "host/data/stream/stream.hpp"
#include "host/scores/columns.hpp"

namespace mneme::eval {

// What the pass of a segment found: its losses, and what the tiers reported, by name.
struct SegmentFindings {
  scores::SegmentLosses losses;
  std::map<std::string, double> tier_losses, tier_metrics;
  std::int64_t read_rows = 0;  // the most
};

// The losses of several segments are computed at once: the output layer is the largest weight of
// many models, and is read once for all of them. Segments leave in the order in which they came.
class LossQueue {
 public:
  struct Entry {
    data::TokenSegment segment;
    SegmentFindings found;
    at::Tensor top;        // [B*T,D]; undefined where the losses are known
    bool is_late = false;  // the memory's state has gone on from that before the segment
  };

  explicit LossQueue(const backbone::Model& model) : model_(model) {}

  // `top` [B,T,D]: the layers' output, where the losses are still to be computed; undefined where
  // `found` has them.
  void push(const data::TokenSegment& segment, const at::Tensor& top, SegmentFindings found);
  // True when the losses must be computed before the newest segment is committed: they are there,
  // or a number of it is not finite, whose origin is searched from the state before the segment.
  // Also when more segments would take memory, delay the answer and gain little.
  [[nodiscard]] bool is_due() const;
  // All segments, with their losses; none wait afterwards.
  [[nodiscard]] std::vector<Entry> take(bool is_newest_committed);
  // The most tokens whose losses are computed at once, of segments with `of_segment` tokens over
  // all lanes.
  [[nodiscard]] static std::int64_t most_rows(std::int64_t of_segment);

 private:
  const backbone::Model& model_;
  std::vector<Entry> entries_;
  std::int64_t rows_ = 0;  // of all tops
  bool can_newest_wait_ = true;
};

// Takes nll, correct and best of an output.
void read_losses(const backbone::Output& out, scores::SegmentLosses& into);

}  // namespace mneme::eval
