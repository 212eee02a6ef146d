// Whether two plugins compute the same: `mneme plugins same`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "host/validate/check.hpp"

namespace mneme::validate {

// The tensors of one kind, of all segments, and where they differ most. A tensor's relative difference
// is its largest absolute one as a share of the first plugin's largest number in it.
struct SameKind {
  std::string kind;  // "losses", "auxiliary losses", "states", "gradients"
  std::int64_t numbers = 0;
  double absolute = 0.0;
  double relative = 0.0;
};

// The first tensor that differs.
struct FirstDifference {
  std::string what;        // "state 0.mean", "gradient of 1.gate"
  std::string phase = {};  // "training" | "evaluation"
  std::int64_t segment = 0;
  std::string problem = {};  // of shapes or dtypes; "" = the numbers differ
  double absolute = 0.0;
  double relative = 0.0;
};

struct Sameness {
  // Of parameters, slots, queues and stages, by name. Where there are any nothing was computed.
  std::vector<std::string> declarations;
  std::vector<SameKind> kinds;
  std::vector<FirstDifference> first;  // at most one

  [[nodiscard]] bool is_same() const { return declarations.empty() && first.empty(); }
};

// Runs both in the small model of the checks, in f64, from the same weights (those of `first`, moved
// by noise, so that parameters which start with zeros count), over the same texts with padding, a
// reset of one lane and one of all, in training with backward passes and in evaluation. Numbers differ
// where they are apart by more than `tolerance`, times the first plugin's largest number of the tensor
// where that is above 1. Plugins may have other ids. Errors: those of the plugins.
[[nodiscard]] Sameness compare_plugins(const Subject& first, const Subject& second,
                                       double tolerance);

}  // namespace mneme::validate
