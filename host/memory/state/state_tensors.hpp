// The tensors of a state, apart from what holds them: for work that is written down once and done
// again with other tensors in their places.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "host/memory/state/stack_state.hpp"
#include "host/memory/state/tier_state.hpp"

namespace mneme::memory {

// All tensors of slots, queues and waiting rows in a fixed order, without graph.
std::vector<at::Tensor> tensors_of(const StackState& state);
// Copies of the tiers with these tensors in place of theirs, in the order of tensors_of; with
// tensors without elements where `tensors` is empty. Projections are left out.
std::vector<TierState> with_tensors(const std::vector<TierState>& tiers,
                                    const std::vector<at::Tensor>& tensors);
// What the next segments may depend on besides the values of the tensors, as text: shapes, which
// tensors are the same, counts, which rows are valid, the lanes' streams and resets. Not the lanes'
// tokens and the number of segments, which differ every time. On a GPU masks of valid rows are
// waited for.
std::string outline_of(const StackState& state);

}  // namespace mneme::memory
