// One segment of all lanes through model and memory, in training, evaluation, decoding and analysis;
// and the search for the first value in it that is not finite.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>

#include "host/backbone/model.hpp"
#include "host/data/stream/stream.hpp"
#include "host/memory/stack/stack.hpp"

namespace mneme::eval {

// Copies a segment to the device: input, target, types and documents i64 [B,T], target -1 where there
// is none; valid_count is left empty when no lane is padded. Error (kRun) naming lane, place and id for
// ids outside 0 .. vocabulary-1.
[[nodiscard]] backbone::Batch make_batch(const data::TokenSegment& segment, std::int64_t vocabulary,
                                         at::Device device);

// The same for a model. With gradient on a device it has the places of ids in clusters, so that the
// host does not wait for them: their sizes too are shapes of the batch.
[[nodiscard]] backbone::Batch make_batch(const data::TokenSegment& segment,
                                         const backbone::Model& model);

// What a caller of run_segment wants besides the model's output.
struct SegmentOptions {
  backbone::ForwardOptions forward = {};
  // Probes, draws and the check for finite values; length and valid counts are the batch's.
  memory::SegmentInput memory = {};
  // Other processes have lanes of the segment that are not reset (StackState::reset).
  bool do_others_go_on = false;
  // Where other processes compute other lanes: for SegmentHooks::sum_over_processes, after the
  // forward pass. null = losses and metrics are means over the lanes of this process.
  memory::SumOverProcesses sum_over_processes = nullptr;
  // Called after the forward pass: auxiliary losses and metrics of the segment are complete, and
  // the state is still that before the segment. When it throws, the state stays so.
  std::function<void(const backbone::Output& out, const memory::SegmentHooks& hooks)>
      before_commit = nullptr;
};

// Runs the segment from `state` and commits what the memory wrote. Errors: what Model::forward,
// hooks and `before_commit` throw; the state is then not changed.
backbone::Output run_segment(backbone::Model& model, memory::Stack& stack,
                             memory::StackState& state, const backbone::Batch& batch,
                             SegmentOptions with = {});
// The same with a segment of a stream, after the resets of lanes that it asks for: after an error
// the lanes stay marked for them. Errors: also as make_batch.
backbone::Output run_segment(backbone::Model& model, memory::Stack& stack,
                             memory::StackState& state, const data::TokenSegment& segment,
                             SegmentOptions with = {});

struct NotFinite {
  std::string place;       // "" = everything is finite
  bool is_plugin = false;  // a hook produced it from finite inputs
};

// A tensor of the memory's state that holds NaN before the segment, named as StackState::save()
// names it: "0.org.x.1.mean".
[[nodiscard]] NotFinite find_in_state(const memory::StackState& state);

// Runs a segment and names the first thing that is not finite, in the order of computation: a
// hook's result, the embedding, a layer's attention block, a layer's output, the loss, an auxiliary
// loss. For example "layer 3 (from 0), output of the attention block, lane 0" or "result of plugin
// org.x, tier 0, hook read, layer 1, lane 2". Commits the segment.
[[nodiscard]] NotFinite find_not_finite(backbone::Model& model, memory::Stack& stack,
                                        memory::StackState& state,
                                        const data::TokenSegment& segment);

}  // namespace mneme::eval
