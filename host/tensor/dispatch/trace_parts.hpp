// Which operations of a trace one graph of a device can hold, and when the others are run.
#pragma once

#include <string>
#include <vector>

#include "host/tensor/dispatch/trace_writer.hpp"

namespace mneme::tensor {

enum class TracePart {
  kOnce,   // it has to do with the CPU and always gives the same: when the graph is made
  kAhead,  // it draws, or has to do with the CPU: before each launch of the graph
  kGraph,  // its tensors are on the device, besides numbers of the code
};

struct TraceParts {
  std::vector<TracePart> of_call;
  // The first operation for which the trace cannot be a graph, and why, in a line; "" = it can be.
  std::string refusal;
};

// The parts of a trace for a graph of this device. What an operation on the CPU writes to belongs to
// its part from the start: the tensor of a copy is made with it. Refused are an operation that has
// to come before the graph and needs something of the graph, or writes where the graph has read or
// written before it; one that writes to an input; and work of Capture::kNever.
[[nodiscard]] TraceParts divide(const Trace::Writer& trace, at::DeviceType device);

}  // namespace mneme::tensor
