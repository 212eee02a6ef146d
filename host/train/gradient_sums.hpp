// The gradients of all ranks, summed while the backward pass still runs.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "host/optim/optimizer.hpp"
#include "host/ranks/communicator.hpp"

namespace mneme::train {

struct GradientSumsOptions {
  std::int64_t bucket_bytes = 25 << 20;  // as many gradients as are summed at once
  bool in_bf16 = false;                  // they are rounded to bf16 on the way
};

// Gradients lie in buckets, flat tensors, in the order in which the first step's backward pass
// made them. A parameter's gradient is copied into its bucket when it is complete, and a bucket
// that is complete is summed by a thread of its own [Li et al. 2020, section 3.2]. One thread at a
// time; the parameters' gradients belong to this object between begin() and finish().
class GradientSums {
 public:
  // `ranks` outlives it. The parameters are those that are trained, equal on all ranks.
  GradientSums(ranks::Communicator& ranks, std::vector<optim::TrainableParameter> parameters,
               const GradientSumsOptions& options);
  ~GradientSums();
  GradientSums(const GradientSums&) = delete;
  GradientSums& operator=(const GradientSums&) = delete;

  // Before the last backward pass of a step. `purpose` names the step in messages.
  void begin(const std::string& purpose);
  // After it: every parameter that has a gradient on some rank has the sum over the ranks; a rank
  // without one counts as 0. Also sums `numbers` over the ranks.
  void finish(std::span<double> numbers);
  // After a failed step: forgets what begin() began. The ranks no longer agree then.
  void forget();

  // Of one rank and step: bytes of the gradients that are summed, and sums.
  [[nodiscard]] std::int64_t bytes() const;
  [[nodiscard]] std::int64_t messages() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace mneme::train
