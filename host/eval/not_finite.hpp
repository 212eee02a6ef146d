// Where a segment left the finite numbers.
#pragma once

#include <string>

#include "host/backbone/model.hpp"
#include "host/memory/finite_watch.hpp"
#include "host/memory/stack.hpp"

namespace mneme::eval {

struct NotFinite {
  std::string place;       // "" = everything is finite
  bool is_plugin = false;  // a hook gave it, from finite tensors
};

// A tensor of the memory's state that holds NaN before the segment; "0.org.x.1.mean" in its place.
[[nodiscard]] NotFinite find_in_state(const memory::StackState& state);

// Passes a segment through the model and names the first thing that is not finite, in the order of
// computation: what a hook gave, the embedding, a layer's attention block, a layer's output, the
// loss, an auxiliary loss. For example "layer 3 (from 0), output of the attention block, lane 0" or
// "result of plugin org.x, tier 0, hook read, layer 1, lane 2". `run` was begun with `watch`; it is
// not committed.
[[nodiscard]] NotFinite find_not_finite(backbone::Model& model, const backbone::Batch& batch,
                                        memory::SegmentRun& run, const memory::FiniteWatch& watch);

}  // namespace mneme::eval
