// A window of a training step: the segments of one backward pass, as the model takes them, and what
// they give.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "host/backbone/forward.hpp"
#include "host/data/stream/stream.hpp"
#include "host/memory/segment/segment_hooks.hpp"
#include "host/memory/state/stack_state.hpp"
#include "host/run/record/observer.hpp"
#include "host/run/runtime.hpp"
#include "host/tensor/dispatch/recorder.hpp"
#include "host/train/step/update.hpp"

namespace mneme::train {

// A segment on the device, and what is asked of it.
struct WindowSegment {
  backbone::Batch batch;
  std::vector<std::uint8_t> reset = {};  // lanes that are reset before it
  bool do_others_go_on = false;          // then
  std::int64_t targets = 0;              // of all processes
  double weight = 0.0;                   // of its mean loss in the step's
};

// What a segment adds to the numbers of its step, by its weight. Tensors stay on the device: all
// numbers of a step come to the CPU in one transfer.
struct SegmentNumbers : LossSums {
  ReportSums metrics;

  SegmentNumbers() = default;
  // `graph` gets the sum of the losses whose gradients are wanted, by train.z_loss the squares of
  // Output::log_sum too.
  SegmentNumbers(const WindowSegment& segment, const backbone::Output& out,
                 const memory::SegmentHooks& hooks, bool has_metrics, double z_loss,
                 at::Tensor& graph);
};

// Sums over the segments of one step.
struct StepSums : LossSums {
  ReportSums metrics;                           // means over the segments that reported them
  std::map<std::string, double> metric_weight;  // of these segments
  std::int64_t tokens = 0;                      // targets
  std::int64_t tokens_read = 0;                 // with and without target, of all lanes
  std::vector<data::TokenSegment> segments;     // in the order in which they ran

  void add(const WindowSegment& segment, const SegmentNumbers& numbers);
  // The loss, auxiliary losses and metrics, f64 [] each.
  [[nodiscard]] std::vector<at::Tensor> numbers() const;
  // Takes them, from the CPU, and what is behind them, the norm of the gradient.
  void put_into(run::StepReport& report, const std::vector<double>& numbers) const;
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
  //
  // The step's last window has `update`, which is run with the sums of the windows `before` as a part
  // of the recording: parameters have no gradients afterwards.
  std::vector<SegmentNumbers> run(tensor::Recorder& recorder,
                                  const std::function<std::vector<SegmentNumbers>()>& pass,
                                  const LossSums& before, StepUpdate* update);

 private:
  struct Outline;  // the numbers' names and the tiers, without tensors

  [[nodiscard]] std::string key() const;
  [[nodiscard]] std::vector<at::Tensor> inputs() const;
  // Takes the gradients from the parameters.
  [[nodiscard]] std::vector<at::Tensor> take_gradients() const;
  // Adds gradients of the windows before, which stay as they are.
  void add_gradients(const std::vector<at::Tensor>& before) const;
  [[nodiscard]] tensor::RecordedResults results_of(const std::vector<SegmentNumbers>& numbers,
                                                   const StepUpdate* update) const;
  // What run() gives; gradients and update get their tensors.
  std::vector<SegmentNumbers> take(const tensor::RecordedResults& results, StepUpdate* update);
  // The state after a window that was replayed.
  void take_state(const Outline& outline, const std::vector<at::Tensor>& tensors);

  run::Runtime& runtime_;
  memory::StackState& state_;
  const std::vector<WindowSegment>& window_;
};

}  // namespace mneme::train
