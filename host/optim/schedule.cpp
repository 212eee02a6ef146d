#include "host/optim/schedule.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "host/base/error.hpp"
#include "host/base/text.hpp"

namespace mneme::optim {
namespace {

std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// Backward passes that an epoch feeds.
double passes_per_epoch(const config::TrainConfig& train, const data::Stream& stream) {
  const std::int64_t with_target = stream.target_segments_per_epoch();
  if (with_target < stream.segments_per_epoch()) return static_cast<double>(with_target);
  return static_cast<double>(with_target) / static_cast<double>(train.bptt_segments);
}

}  // namespace

LearningRate::LearningRate(const config::TrainConfig& train, std::int64_t total_steps)
    : schedule_(train.schedule),
      warmup_(train.warmup),
      total_(std::max<std::int64_t>(1, total_steps)),
      decay_(train.decay_steps(total_)),
      least_(train.lr > 0.0 ? train.lr_min / train.lr : 0.0) {}

double LearningRate::factor(std::int64_t step) const {
  if (step < warmup_) return static_cast<double>(step) / static_cast<double>(warmup_);
  const auto at = static_cast<double>(std::min(step, total_));
  const auto total = static_cast<double>(total_), warmup = static_cast<double>(warmup_);
  switch (schedule_) {
    case config::Schedule::kConstant:
      return 1.0;
    case config::Schedule::kCosine:
      return least_ + (1.0 - least_) * 0.5 * (1.0 + std::cos(std::numbers::pi * (at / total)));
    case config::Schedule::kLinear:
      if (warmup >= total) return 1.0;
      return least_ + (1.0 - least_) * (total - at) / (total - warmup);
    case config::Schedule::kInverseSqrt:
      return std::max(least_, std::sqrt(warmup / std::max(1.0, at)));
    case config::Schedule::kWsd:
    case config::Schedule::kWsdSqrt: {
      const auto decay = static_cast<double>(decay_);
      if (at <= total - decay) return 1.0;
      const double x = (at - (total - decay)) / decay;
      const double fallen = schedule_ == config::Schedule::kWsd ? x : std::sqrt(x);
      return least_ + (1.0 - least_) * (1.0 - fallen);
    }
  }
  return 1.0;
}

std::int64_t accumulation(const config::TrainConfig& train, std::int64_t step) {
  std::int64_t segments = train.accumulate;  // backward passes, each of bptt_segments segments
  for (const config::AccumulateFrom& from : train.accumulate_from) {
    if (step >= from.step) segments = from.segments;
  }
  return segments;
}

std::int64_t count_steps(const config::TrainConfig& train, const data::Stream& stream) {
  if (train.epochs == 0) return train.steps;
  if (stream.segments_per_epoch() == 0) {
    throw_usage({.where = "train.epochs",
                 .failed = "the task generates data without end",
                 .expected = "train.steps",
                 .got = str("train.epochs = ", train.epochs)});
  }
  auto passes = static_cast<std::int64_t>(
      std::ceil(static_cast<double>(train.epochs) * passes_per_epoch(train, stream)));
  std::int64_t step = 0;
  for (const config::AccumulateFrom& from : train.accumulate_from) {
    const std::int64_t before = (from.step - step) * accumulation(train, step);
    if (before >= passes) break;
    passes -= before;
    step = from.step;
  }
  const std::int64_t steps = step + divide_up(passes, accumulation(train, step));
  const std::int64_t decay = train.decay_steps(steps);
  if (decay > 0 && train.warmup + decay > steps) {
    throw_usage({.where = "train.decay_share",
                 .failed = "the decay begins within the warm-up",
                 .expected = str("at most ", steps - train.warmup, " of ", steps, " steps"),
                 .got = str(decay)});
  }
  return steps;
}

double count_epochs(const config::TrainConfig& train, const data::Stream& stream,
                    std::int64_t steps) {
  std::int64_t step = 0, passes = 0;
  const auto go_to = [&](std::int64_t next) {
    passes += (next - step) * accumulation(train, step);
    step = next;
  };
  for (const config::AccumulateFrom& from : train.accumulate_from) {
    go_to(std::min(from.step, steps));
  }
  go_to(steps);
  return static_cast<double>(passes) / passes_per_epoch(train, stream);
}

}  // namespace mneme::optim
