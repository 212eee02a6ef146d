// What a step of a session gathers. Included by the session's own files only.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "host/data/stream.hpp"
#include "host/train/session.hpp"

namespace mneme::train {

using ReportSums = std::map<std::string, at::Tensor>;  // f64 []

// Sums over the segments of one step. Tensors stay on the device: all numbers of a step come to the
// CPU in one transfer.
struct Session::Pass {
  at::Tensor graph;  // loss of the segments since the last backward pass
  at::Tensor loss;   // mean of the segments' mean nll, f64 []
  // What entered the loss of each auxiliary one, before its weight of the manifest: segments that
  // did not report it count as 0.
  ReportSums losses;
  ReportSums metrics;                           // means over the segments that reported them
  std::map<std::string, double> metric_weight;  // of these segments
  std::int64_t tokens = 0;
  std::vector<data::Segment> segments;  // in the order in which they ran
};

}  // namespace mneme::train
