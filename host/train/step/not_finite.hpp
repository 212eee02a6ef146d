// Steps whose numbers are not finite.
#pragma once

#include <string>
#include <vector>

#include "host/data/stream/stream.hpp"
#include "host/eval/run_segment.hpp"
#include "host/memory/state/stack_state.hpp"
#include "host/run/record/observer.hpp"
#include "host/run/runtime.hpp"

namespace mneme::train {

// Of the loss, auxiliary losses and the norm of the gradient; metrics may be anything.
[[nodiscard]] bool is_finite(const run::StepReport& report);
// The first of the loss and the auxiliary losses that is not finite.
[[nodiscard]] std::string loss_text(const run::StepReport& report);

// Runs the segments of a failed step once more, without gradient and from the state that the step
// began with, and names the first thing that is not finite: a parameter, the state, or what
// eval::find_not_finite names, with the segment ("..., segment 2 of the step"). Nothing is found
// when every forward pass is finite: then only a gradient is not finite. `state` and the model's
// noise position are the step's first ones; both are changed.
[[nodiscard]] eval::NotFinite find_in_forward(run::Runtime& runtime, memory::StackState& state,
                                              const std::vector<data::TokenSegment>& segments);

}  // namespace mneme::train
