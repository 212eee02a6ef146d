// An open segment (generation).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "host/backbone/model.hpp"
#include "host/backbone/open_layer.hpp"
#include "host/memory/segment/segment_hooks.hpp"

namespace mneme::backbone {

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
  // Stages 7 and 8; the caller commits the hooks.
  void close();
  // Between steps: keeps `lanes`, in that order (repeats allowed), of segment, hooks and state.
  void select(const std::vector<std::int64_t>& lanes);

 private:
  Model& model_;
  memory::SegmentHooks& hooks_;
  std::vector<OpenLayer> layers_;
  std::int64_t tokens_ = 0;                       // of all steps
  std::vector<at::Tensor> ids_, types_;           // by step
  std::vector<at::Tensor> tops_;                  // by step
  std::vector<std::vector<at::Tensor>> outputs_;  // by layer, by step; when a tier wants them
};

}  // namespace mneme::backbone
