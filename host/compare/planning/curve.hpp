// The learning curve that every arm of a comparison gets: evaluations of a part of the valid split
// while it trains.
#pragma once

#include <cstdint>

#include "host/config/experiment.hpp"
#include "host/data/dataset.hpp"

namespace mneme::compare {

struct CurvePlan {
  std::int64_t points = 0;    // evaluations; 0 = there is no curve
  std::int64_t segments = 0;  // of the valid split, its first ones, in each

  // Steps between two evaluations in a training of `steps` steps; 0 = there is no curve.
  [[nodiscard]] std::int64_t every(std::int64_t steps) const {
    return points == 0 ? 0 : (steps + points - 1) / points;
  }
};

// Ten evaluations, or with train.eval_every one every eval_every steps. The number of segments is
// such that all evaluations together take less than a tenth of the training's time; a short
// training has fewer of both, and no curve where two evaluations would take too long. A segment is
// taken to cost half of its cost in the training, which also has its backward pass. Where few
// segments have targets the part contains whole sequences. `steps`: of the training.
[[nodiscard]] CurvePlan plan_curve(const config::Experiment& experiment,
                                   const data::Dataset& dataset, std::int64_t steps);

}  // namespace mneme::compare
