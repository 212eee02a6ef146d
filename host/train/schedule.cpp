#include "host/train/schedule.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace mneme::train {

LearningRate::LearningRate(const config::TrainConfig& train, std::int64_t total_steps)
    : schedule_(train.schedule),
      warmup_(train.warmup),
      total_(std::max<std::int64_t>(1, total_steps)),
      least_(train.lr > 0.0 ? train.lr_min / train.lr : 0.0) {}

double LearningRate::factor(std::int64_t step) const {
  if (step < warmup_) return static_cast<double>(step) / static_cast<double>(warmup_);
  if (schedule_ == config::Schedule::kConstant) return 1.0;
  const double progress = static_cast<double>(std::min(step, total_)) / static_cast<double>(total_);
  return least_ + (1.0 - least_) * 0.5 * (1.0 + std::cos(std::numbers::pi * progress));
}

}  // namespace mneme::train
