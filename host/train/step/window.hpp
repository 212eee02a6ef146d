// A window of a training step: the segments of one backward pass, as the model takes them, and what
// they give.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "host/backbone/forward.hpp"
#include "host/data/stream/stream.hpp"
#include "host/memory/segment/segment_hooks.hpp"
#include "host/memory/state/stack_state.hpp"
#include "host/optim/optimizer.hpp"
#include "host/run/record/observer.hpp"
#include "host/run/runtime.hpp"
#include "host/tensor/dispatch/recorder.hpp"

namespace mneme::train {

// A segment on the device, and what is asked of it.
struct WindowSegment {
  backbone::Batch batch;
  std::vector<std::uint8_t> reset = {};  // lanes that are reset before it
  bool do_others_go_on = false;          // then
  std::int64_t targets = 0;              // of all processes
  double weight = 0.0;                   // of its mean loss in the step's
};

using ReportSums = std::map<std::string, at::Tensor>;  // f64 []

// What a segment adds to the numbers of its step, by its weight. Tensors stay on the device: all
// numbers of a step come to the CPU in one transfer.
struct SegmentNumbers {
  at::Tensor loss;  // mean nll, f64 []; undefined without targets
  // The part of each auxiliary loss in the step's loss, before its weight; segments that did not
  // report it count as 0.
  ReportSums losses;
  ReportSums metrics;

  SegmentNumbers() = default;
  // `graph` gets the sum of the losses whose gradients are wanted.
  SegmentNumbers(const WindowSegment& segment, const backbone::Output& out,
                 const memory::SegmentHooks& hooks, bool has_metrics, at::Tensor& graph);
};

// Sums over the segments of one step.
struct StepSums {
  at::Tensor loss;  // mean of the segments' mean nll, f64 []
  ReportSums losses;
  ReportSums metrics;                           // means over the segments that reported them
  std::map<std::string, double> metric_weight;  // of these segments
  std::int64_t tokens = 0;
  std::vector<data::TokenSegment> segments;  // in the order in which they ran

  void add(const WindowSegment& segment, const SegmentNumbers& numbers);
  // The loss, auxiliary losses and metrics, f64 [] each.
  [[nodiscard]] std::vector<at::Tensor> numbers() const;
  // Takes them, from the CPU, and what is behind them, the norm of the gradient.
  void put_into(run::StepReport& report, const std::vector<double>& numbers) const;
  // is_finite() of that report, on the device of these numbers, bool [].
  [[nodiscard]] at::Tensor are_finite(const at::Tensor& numbers) const;
};

// The window as work of a recorder, and back.
class RecordedWindow {
 public:
  // All three must outlive it; `state` is that before the window.
  RecordedWindow(run::Runtime& runtime, memory::StackState& state,
                 const std::vector<WindowSegment>& window);

  // Runs `pass`, the forward and backward passes, or what the recorder has of them: gradients are
  // added to those of the parameters, and the state becomes that after the window. Errors: those of
  // `pass` and of tensor::Recorder::run.
  std::vector<SegmentNumbers> run(tensor::Recorder& recorder,
                                  const std::function<std::vector<SegmentNumbers>()>& pass);

 private:
  struct Outline;  // the numbers' names and the tiers, without tensors

  [[nodiscard]] std::string key() const;
  [[nodiscard]] std::vector<at::Tensor> inputs() const;
  [[nodiscard]] tensor::RecordedResults results_of(
      const std::vector<SegmentNumbers>& numbers) const;
  // The state after a window that was replayed.
  void take_state(const Outline& outline, const std::vector<at::Tensor>& tensors);

  run::Runtime& runtime_;
  memory::StackState& state_;
  const std::vector<WindowSegment>& window_;
};

}  // namespace mneme::train
