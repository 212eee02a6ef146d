// An open segment (generation).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string_view>
#include <vector>

#include "host/backbone/model.hpp"
#include "host/backbone/open/open_layer.hpp"
#include "host/memory/segment/segment_hooks.hpp"

namespace mneme::backbone {

// The memory of even steps (OpenSegment), which the segments of a text use one after another: what
// was recorded of a step serves all whose room has the same shape.
struct EvenRoom {
  std::vector<EvenRows> layers;
  at::Tensor place, columns;  // of the step, i64 [1]; 0 .. rows - 1

  // As the layers see it, without a turn.
  [[nodiscard]] EvenPlace place_of(std::int64_t lanes, bool is_relative) const;
};

// A segment that grows step by step (generation); gives the numbers of one whole segment when no
// tier lets a token see a later one (docs/design.md, "Cuts"). Evaluation only, without gradient.
// After an error the segment cannot be used.
class OpenSegment {
 public:
  // `hooks` was begun with SegmentInput::is_open. Both outlive the segment.
  OpenSegment(Model& model, memory::SegmentHooks& hooks);

  // New tokens, i64 [B,n], and their types (Batch): runs stages 3, 4 and 6, in the first step 2 and
  // 5 too. Returns the last layer's output for them, [B,n,D]. The first step has the length that
  // the hooks were begun with. Errors: Error(kRun | kPlugin); Error(kUsage) when the segment grows
  // beyond the learned positions or beyond what a tier serves.
  at::Tensor step(const at::Tensor& ids, const at::Tensor& types = {});

  // --- Even steps: of one token each, which do the same with the same memory every time, so that
  // one can be recorded and run again. Their numbers are those of step() up to rounding. ---

  // Why segments of the model have none, with a memory or without, for people; "" = they have.
  [[nodiscard]] static std::string_view against_even_steps(const Model& model, bool has_memory);
  [[nodiscard]] bool can_step_evenly() const {
    return against_even_steps(model_, hooks_.has_tiers()).empty();
  }
  // Before each even step, which may be a recorded one: counts its token, in a segment of at most
  // `rows` tokens that has had a step, and which has `room`, which outlives it, for itself. True when
  // the step is the first of its kind: what was recorded before reads other memory. Errors as step().
  bool begin_even_step(std::int64_t rows, EvenRoom& room);
  // ids i64 [B,1]: the last layer's output, [B,1,D]. The same again when it is called again.
  at::Tensor even_step(const at::Tensor& ids);

  // Stages 7 and 8; the caller commits the hooks.
  void close();
  // Between steps: keeps `lanes`, in that order (repeats allowed), of segment, hooks and state. Where
  // one lane becomes several, there is no memory, and attention reads keys in pieces, the keys and
  // values of the tokens so far stay one lane's, which all read.
  void select(const std::vector<std::int64_t>& lanes);

 private:
  Model& model_;
  memory::SegmentHooks& hooks_;
  std::vector<OpenLayer> layers_;
  std::int64_t tokens_ = 0;                       // of all steps
  EvenRoom* room_ = nullptr;                      // of even steps; null = the last one was none
  std::vector<at::Tensor> ids_, types_;           // by step
  std::vector<at::Tensor> tops_;                  // by step
  std::vector<std::vector<at::Tensor>> outputs_;  // by layer, by step; when a tier wants them
};

}  // namespace mneme::backbone
