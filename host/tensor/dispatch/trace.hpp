// What a piece of work does on tensors, written down below LibTorch's gradient graph: the operations
// of forward and backward passes alike, in order, with the tensors that pass from one to another.
// Two traces are compared, to know whether the work is the same each time; a trace can be run again
// without the code that gave it.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace mneme::tensor {

// Work that is no operation of LibTorch: a kernel, or numbers that the CPU draws. It is given the
// tensors of run_traced, and the number of segments between the one that was traced and this one.
using TracedWork = std::function<void(const std::vector<at::Tensor>& tensors, std::int64_t ahead)>;

// Where the work is done when the operations around it are one graph of a device.
enum class Capture {
  // In the graph where its tensors are on the device. It computes from its tensors alone, and what
  // it queues on the device depends on their shapes and the numbers of its text.
  kByTensors,
  kAhead,  // by the CPU before the graph is launched: it draws, or uses `ahead` otherwise
  kNever,  // operations with this work are no graph, for it waits for the device
};

// Runs `work`, which reads and writes these tensors (undefined ones are passed through) and computes
// the same from the same, and adds it to the trace that is being written, if there is one. `text`
// names it with all numbers that it depends on and `ahead` does not change.
void run_traced(const std::string& text, const std::vector<at::Tensor>& reads,
                const std::vector<at::Tensor>& writes, const TracedWork& work,
                Capture capture = Capture::kByTensors);

class Trace {
 public:
  Trace();
  ~Trace();
  Trace(Trace&&) noexcept;
  Trace& operator=(Trace&&) noexcept;

  // A tensor that has other values when the trace is run again; before it is written. All others
  // that the work reads and has not made stay what they are. Undefined ones count too.
  void add_input(const at::Tensor& tensor);
  // A tensor that the work made, or passed on; after it was written. Undefined ones count too.
  // Error(kRun) for one that it neither made nor read.
  void add_output(const at::Tensor& tensor);

  // The operations, a line each, as "aten::add.Tensor(%3 f32[2,4], %7 f32[4], 1)".
  [[nodiscard]] const std::vector<std::string>& lines() const;
  // The first thing in which two differ, for people; "" = they are the same, and read the same
  // tensors besides their inputs.
  [[nodiscard]] static std::string difference(const Trace& one, const Trace& other);
  // The first operation that reads values on the CPU, or whose results have shapes that depend on
  // values; "" = there is none.
  [[nodiscard]] std::string reads_values() const;

  // Runs the operations with these inputs, in the order in which they were added, and gives the
  // outputs. No gradient graph is made. Not while a trace is being written.
  [[nodiscard]] std::vector<at::Tensor> replay(const std::vector<at::Tensor>& inputs,
                                               std::int64_t ahead) const;

  class Writer;  // trace_writer.hpp
  [[nodiscard]] const Writer& writer() const { return *writer_; }

 private:
  friend class TraceScope;
  std::unique_ptr<Writer> writer_;
};

// While it lives, what this thread computes is written to the trace, the backward passes that it
// waits for too. One at a time in a process.
class TraceScope {
 public:
  explicit TraceScope(Trace& trace);
  ~TraceScope();
  TraceScope(const TraceScope&) = delete;
  TraceScope& operator=(const TraceScope&) = delete;

 private:
  c10::impl::IncludeDispatchKeyGuard key_;
};

// Whether a trace is being written by this thread: not within work of run_traced, nor within an
// operation that is in the trace.
[[nodiscard]] bool is_tracing();

}  // namespace mneme::tensor
