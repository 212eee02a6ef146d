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

  // Steps between two of them in a training of so many; 0 = there is no curve.
  [[nodiscard]] std::int64_t every(std::int64_t steps) const {
    return points == 0 ? 0 : (steps + points - 1) / points;
  }
};

// Ten evaluations, or with train.eval_every one every so many steps, of as many segments that all
// of them take less than a tenth of the training's time; fewer of both in a short training, and
// none where two would be too many. A segment is taken to cost half of what it does in the
// training, which also has its backward pass. Where few segments have targets the part reaches over
// all of a sequence's. `steps`: of the training.
[[nodiscard]] CurvePlan plan_curve(const config::Experiment& experiment,
                                   const data::Dataset& dataset, std::int64_t steps);

}  // namespace mneme::compare
