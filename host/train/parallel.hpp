// A training whose lanes are split over the ranks of a parallel run: what the ranks agree on.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "host/backbone/model.hpp"
#include "host/data/stream/stream.hpp"
#include "host/memory/segment/segment_hooks.hpp"
#include "host/memory/state/stack_state.hpp"
#include "host/ranks/communicator.hpp"
#include "host/run/checkpoint/checkpoint.hpp"
#include "host/run/runtime.hpp"
#include "host/train/step/gradient_sums.hpp"

namespace mneme::train {

// The ranks of a training, and the signal that asks this process to stop.
struct RankOptions {
  ranks::Communicator* ranks = nullptr;  // null = one process; outlives the training
  // 0 = none. Asked once a step; the ranks stop together (StepReport::stop_signal).
  std::function<int()> stop_signal = nullptr;

  [[nodiscard]] bool is_parallel() const { return ranks != nullptr; }
  // Rank 0 alone writes files.
  [[nodiscard]] bool is_writer() const { return ranks == nullptr || ranks->is_first(); }
};

// The same experiment with the lanes of one rank, for estimates of memory. Error (kUsage) when the
// ranks do not divide train.lanes.
[[nodiscard]] config::Experiment with_own_lanes(config::Experiment experiment,
                                                const RankOptions& ranks);

// Error (kUsage) naming rank, host and what differs, on all ranks, when a rank has another program,
// plugin file, experiment or data than rank 0, or another kind of device. Collective.
void check_equal_ranks(ranks::Communicator& ranks, const run::Runtime& runtime);

// Error (kUsage) when a tier keeps a slot that belongs to the run and not to lanes: it would take
// another value on every rank.
void check_slots(const memory::Stack& stack);

// Collective are the functions that say so; every rank calls them in the same order.
class Parallel {
 public:
  // Collective. Errors: as lanes_of, check_slots and check_equal_ranks.
  Parallel(const RankOptions& options, run::Runtime& runtime);

  [[nodiscard]] const ranks::LaneRange& lanes() const { return lanes_; }
  [[nodiscard]] ranks::Communicator& ranks() const { return *options_.ranks; }

  // The segment's lanes that are this rank's; its length stays that of the longest lane of all.
  [[nodiscard]] data::TokenSegment own(const data::TokenSegment& whole) const;
  // A fresh state of this rank's lanes.
  [[nodiscard]] memory::StackState new_state(const memory::Stack& stack) const;
  // This rank's lanes of a state of all lanes.
  void keep_own(memory::StackState& state) const;
  // The state of all lanes on rank 0, where a checkpoint is written; nothing on the others.
  // Collective.
  [[nodiscard]] memory::NamedState gather(const memory::NamedState& own) const;

  // Whether each rank updates its shards of the parameters alone (train.shard_optimizer).
  [[nodiscard]] bool is_sharded() const { return gradients_.is_sharded(); }
  // What this rank's optimiser updates: all parameters, or its shards.
  [[nodiscard]] std::vector<optim::TrainableParameter> updated() const;
  // The moments of all parameters on rank 0, for a checkpoint. Collective.
  [[nodiscard]] std::vector<optim::Optimizer::Moments> gather(optim::Optimizer& optimizer);
  // Tensors for the moments of all parameters as a checkpoint holds them; then this rank's
  // optimiser takes what is its own of them.
  [[nodiscard]] std::vector<optim::Optimizer::Moments> whole_moments(
      optim::Optimizer& optimizer) const;
  void take(const std::vector<optim::Optimizer::Moments>& whole, optim::Optimizer& optimizer) const;
  // Optimizer::untrained of all ranks. Collective.
  [[nodiscard]] std::vector<std::string> untrained(const optim::Optimizer& optimizer) const;
  // The norm of all gradients, computed from `own`, the norm of this rank's. Collective.
  [[nodiscard]] double norm_of_all(double own);
  // After an update: all ranks get the new values. Collective.
  void share_parameters() { gradients_.share_parameters(); }
  void zero_grad() { gradients_.zero_grad(); }

  // All ranks take rank 0's weights, before the first step: other processors may draw other values,
  // and ranks may have been given other weights. Collective.
  void take_first_weights(run::Runtime& runtime);
  // Error (kUsage) naming the rank, on all ranks, when a rank has read another checkpoint than
  // rank 0. Collective.
  void check_same_checkpoint(const run::Checkpoint& checkpoint) const;

  // Names the step in messages about ranks that do not come.
  void begin_step(std::int64_t step);
  // Before the step's last backward pass.
  void begin_backward() { gradients_.begin(purpose_); }
  // Sums gradients and numbers, and agrees on the signal, which is returned. Collective.
  [[nodiscard]] int finish_backward(std::vector<double>& numbers);
  // For eval::SegmentOptions.
  [[nodiscard]] memory::SumOverProcesses sum_over_processes();
  // The text of the first rank that has one, with the rank's name; "" = none has. Collective.
  [[nodiscard]] std::string first_text(const std::string& own) const;

  [[nodiscard]] const GradientSums& gradients() const { return gradients_; }

 private:
  RankOptions options_;
  ranks::LaneRange lanes_;
  std::string purpose_ = "start of the training";
  GradientSums gradients_;
};

}  // namespace mneme::train
