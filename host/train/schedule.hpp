// Learning-rate schedules.
#pragma once

#include <cstdint>

#include "host/config/experiment.hpp"

namespace mneme::train {

// The factor on every parameter group's base learning rate at a step.
//
// Linear warm-up: step s (from 0) uses s / warmup while s < warmup. Then `constant` uses 1, and
// `cosine` m + (1 - m) (1 + cos(pi s / total)) / 2 with m = lr_min / lr: the cosine runs over all
// steps, warm-up included [Transformer-XL, train.py: CosineAnnealingLR(max_step)]. Unlike there,
// the very first step of a warm-up does not run at the full rate.
class LearningRate {
 public:
  LearningRate(const config::TrainConfig& train, std::int64_t total_steps);

  // step 0 .. total; later steps keep the last value.
  [[nodiscard]] double factor(std::int64_t step) const;

 private:
  config::Schedule schedule_;
  std::int64_t warmup_;
  std::int64_t total_;
  double least_;  // m
};

}  // namespace mneme::train
