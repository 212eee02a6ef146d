// Where a step left the finite numbers.
#pragma once

#include <vector>

#include "host/data/stream.hpp"
#include "host/eval/not_finite.hpp"
#include "host/memory/stack.hpp"
#include "host/run/runtime.hpp"

namespace mneme::train {

// Runs the segments of a failed step once more, without gradient and from the state that the step
// began with, and names the first thing that is not finite: a parameter, the state, or what
// eval::find_not_finite names, with the segment ("..., segment 2 of the step"). Nothing is found
// when every forward pass is finite: then only the backward pass left the finite numbers. `state`
// and the model's noise position are the step's first ones; both are changed.
[[nodiscard]] eval::NotFinite find_not_finite(run::Runtime& runtime, memory::StackState& state,
                                              const std::vector<data::Segment>& segments);

}  // namespace mneme::train
