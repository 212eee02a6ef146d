// Where a step left the finite numbers.
#pragma once

#include <string>
#include <vector>

#include "host/data/stream.hpp"
#include "host/memory/stack.hpp"
#include "host/train/runtime.hpp"

namespace mneme::train {

// Runs the segments of a failed step once more, without gradient and from the state that the step
// began with, and names the first thing that is not finite: a parameter, or, in the order of
// computation, the embedding, a layer's attention block, a layer's output, the loss. For example
// "layer 3 (from 0), output of the attention block, segment 2 of the step, lane 0". "" when every
// forward pass is finite: then only the backward pass left the finite numbers. `state` and the
// model's noise position are the step's first ones; both are changed.
[[nodiscard]] std::string find_not_finite(Runtime& runtime, memory::StackState& state,
                                          const std::vector<data::Segment>& segments);

}  // namespace mneme::train
