// What a run remembers of its evaluations of the valid split.
#pragma once

#include <cstdint>
#include <limits>

namespace mneme::run {

// Part of RunProgress: a resumed run stops early where the uninterrupted one does.
struct ValidRecord {
  std::int64_t last_step = 0;  // steps done at the last evaluation; 0 = none yet
  std::int64_t best_step = 0;  // likewise of the lowest loss
  double best_loss = std::numeric_limits<double>::infinity();  // nats a token
  std::int64_t evaluations_since_best = 0;

  // Notes an evaluation; true when its loss is lower than every earlier one.
  bool add(std::int64_t step, double loss) {
    last_step = step;
    const bool is_best = loss < best_loss;
    if (is_best) {
      best_step = step;
      best_loss = loss;
    }
    evaluations_since_best = is_best ? 0 : evaluations_since_best + 1;
    return is_best;
  }

  friend bool operator==(const ValidRecord&, const ValidRecord&) = default;
};

}  // namespace mneme::run
