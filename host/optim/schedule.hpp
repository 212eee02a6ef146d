// Schedules, by step: the learning rate and the number of backward passes.
#pragma once

#include <cstdint>

#include "host/config/experiment.hpp"
#include "host/data/stream/stream.hpp"

namespace mneme::optim {

// The factor on every parameter's base learning rate, f(s), where s counts the steps done before
// (from 0), w = warmup, n = all steps, m = lr_min / lr:
//
//   s < w         s / w: linear growth from 0, whatever the schedule
//   constant      1
//   cosine        m + (1 - m) (1 + cos(pi s / n)) / 2: over all steps, warm-up included
//   linear        m + (1 - m) (n - s) / (n - w): from 1 at the warm-up's end to m
//   wsd           1, and in the last d = decay_share n steps m + (1 - m) (1 - x), where
//                 x = (s - (n - d)) / d [Hu et al. 2024, 4]
//   wsd_sqrt      the same with 1 - sqrt(x) in place of 1 - x [Haegele et al. 2024]
//   inverse_sqrt  max(m, sqrt(w / s)) [Vaswani et al. 2017, 5.3]: 1 at the warm-up's end
//
// Departures from the official Transformer-XL (train.py): its warm-up skips f(0) = 0, running the
// first step at the full rate; its inv_sqrt, 1 / sqrt(s), is ours times 1 / sqrt(w), so that its
// `lr` is no rate that is ever reached; it knows no linear schedule. Its cosine is ours.
class LearningRate {
 public:
  LearningRate(const config::TrainConfig& train, std::int64_t total_steps);

  // step 0 .. total; later steps keep the last value.
  [[nodiscard]] double factor(std::int64_t step) const;

 private:
  config::Schedule schedule_;
  std::int64_t warmup_;
  std::int64_t total_;
  std::int64_t decay_;  // d
  double least_;        // m
};

// Backward passes of the step after `step` steps: train.accumulate, or what the last of
// train.accumulate_from that holds says (the Compressive Transformer's update period).
[[nodiscard]] std::int64_t accumulation(const config::TrainConfig& train, std::int64_t step);

// Steps of the whole run: train.steps, or the number that it takes to see train.epochs epochs of
// the stream; the last step may reach into another one. A backward pass takes bptt_segments
// segments, or one answer of a task whose other segments have no target. Error (kUsage) for epochs
// of data without end.
[[nodiscard]] std::int64_t count_steps(const config::TrainConfig& train,
                                       const data::Stream& stream);
// Epochs of the stream, whose data have an end, that the first `steps` steps see.
[[nodiscard]] double count_epochs(const config::TrainConfig& train, const data::Stream& stream,
                                  std::int64_t steps);

}  // namespace mneme::optim
