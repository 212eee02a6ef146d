// The gradients of all ranks, summed while the backward pass still runs.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "host/optim/parameter_groups.hpp"
#include "host/ranks/communicator.hpp"

namespace mneme::train {

struct GradientSumsOptions {
  std::int64_t bucket_bytes = 25 << 20;  // of the gradients that are summed at once
  bool in_bf16 = false;                  // they are rounded to bf16 on the way
  bool is_sharded = false;               // each rank gets the sums of its shards alone
};

// Gradients lie in buckets, flat tensors, in the order in which the first step's backward pass
// made them. A parameter's gradient is copied into its bucket when it is complete, and a bucket
// that is complete is summed by a thread of its own [Li et al. 2020, section 3.2]. One thread at a
// time; the parameters' gradients belong to this object between begin() and finish().
//
// Sharded, each rank has an equal piece of every bucket [Rajbhandari et al. 2020, ZeRO stage 1]:
// its pieces of parameters are its shards, which it alone updates.
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
  // After it: every parameter (every shard) that has a gradient on some rank has the sum over the
  // ranks; a rank without one counts as 0. Also sums `numbers` over the ranks.
  void finish(std::span<double> numbers);
  // Removes the parameters' own gradients, which a failed step can leave.
  void zero_grad();

  // A contiguous part of a parameter, as a parameter of its own: for the optimiser.
  struct Shard {
    std::size_t parameter = 0;
    std::int64_t offset = 0;  // of its first number in the parameter, row-major
    optim::TrainableParameter part;
  };
  [[nodiscard]] bool is_sharded() const;
  // This rank's shards; empty where gradients are not sharded, or are fewer than ranks.
  [[nodiscard]] const std::vector<Shard>& shards() const;
  // Gives the values of this rank's shards to all ranks. Collective.
  void share_parameters();
  // What every rank has of its shards, tensors of the size of shard i, as whole tensors of the
  // parameters' sizes: on rank 0, nothing on the others. Collective.
  [[nodiscard]] std::vector<at::Tensor> gather(const std::vector<at::Tensor>& of_shards);

  [[nodiscard]] const std::vector<optim::TrainableParameter>& parameters() const;

  // Bytes of the gradients that are summed in a step, and the buckets that they lie in.
  [[nodiscard]] std::int64_t bytes() const;
  [[nodiscard]] std::int64_t buckets() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace mneme::train
