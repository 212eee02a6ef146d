// Evaluations made by hand.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "host/data/stream/stream.hpp"
#include "host/scores/evaluation_files.hpp"

namespace mneme::test {

// One lane of a segment: its targets, where the first of them stands, and its losses.
struct LaneScores {
  std::int64_t document;
  std::int64_t distance;
  std::vector<std::int64_t> targets;
  std::vector<double> nll;
};

// Adds a segment; a target is correct when its loss is below 1.
inline void add_segment(scores::Columns& columns, std::int64_t index,
                        const std::vector<LaneScores>& lanes,
                        const std::vector<std::uint8_t>& source = {}) {
  std::int64_t length = 1;
  for (const LaneScores& lane : lanes) {
    length = std::max(length, static_cast<std::int64_t>(lane.targets.size()));
  }
  data::TokenSegment segment;
  segment.prepare(static_cast<std::int64_t>(lanes.size()), length, !source.empty());
  segment.index = index;
  segment.source = source;
  const std::size_t places = segment.targets.size();
  scores::SegmentLosses losses{.nll = std::vector<double>(places, 0.0),
                               .correct = std::vector<std::uint8_t>(places, 0),
                               .best = std::vector<std::int64_t>(places, -1),
                               .document = std::vector<std::int64_t>(places, -1),
                               .distance = std::vector<std::int64_t>(places, -1)};
  for (std::size_t b = 0; b < lanes.size(); ++b) {
    for (std::size_t t = 0; t < lanes[b].targets.size(); ++t) {
      const std::size_t i = b * static_cast<std::size_t>(length) + t;
      segment.targets[i] = lanes[b].targets[t];
      losses.nll[i] = lanes[b].nll[t];
      losses.correct[i] = losses.nll[i] < 1.0 ? 1 : 0;
      losses.document[i] = lanes[b].document;
      const bool is_known = lanes[b].distance >= 0;
      losses.distance[i] = is_known ? lanes[b].distance + static_cast<std::int64_t>(t) : -1;
    }
  }
  columns.add(segment, losses);
}

// Two lanes, three documents; the second lane's first target belongs to document 1 as the first
// lane's last ones do. Values that are floats.
inline scores::Columns some_columns() {
  scores::Columns columns;
  add_segment(columns, 0, {{0, 1, {3, 4, 5}, {0.5, 1.5, 2.25}}, {1, 3, {9}, {0.125}}});
  add_segment(columns, 1, {{1, 0, {6, 7}, {3.0, 0.75}}, {2, 0, {1, 2}, {1.0, 2.0}}});
  return columns;
}

// What is stored with columns; the result that they must add up to is in it.
inline scores::EvaluationToStore some_evaluation(const scores::Columns& columns) {
  const scores::Sums sums = columns.total();
  scores::EvaluationToStore evaluation{
      .name = {.split = "valid", .step = 40, .settings = "0123abcd"},
      .unit = scores::SampleUnit::kDocument,
      .info = {
          {"seed", 7},
          {"task", "text"},
          {"result", {{"tokens", sums.targets}, {"nll", sums.nll}, {"correct", sums.correct}}}}};
  return evaluation;
}

}  // namespace mneme::test
