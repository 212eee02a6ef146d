// An open segment of backbone `xl`.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "host/backbone/open_layer.hpp"
#include "host/backbone/xl.hpp"

namespace mneme::backbone {

class XlOpenSegment final : public OpenSegment {
 public:
  // Both outlive the segment.
  XlOpenSegment(Xl& model, memory::SegmentRun& run);

  at::Tensor step(const at::Tensor& ids) override;
  void close() override;
  void select(const std::vector<int64_t>& lanes) override;

 private:
  // The scope of the step that follows `past` tokens.
  SegmentScope scope(int64_t past);

  Xl& model_;
  memory::SegmentRun& run_;
  std::vector<OpenLayer> layers_;
  int64_t tokens_ = 0;                            // of all steps
  std::vector<at::Tensor> tops_;                  // by step
  std::vector<std::vector<at::Tensor>> outputs_;  // by layer, by step; when a tier wants them
};

}  // namespace mneme::backbone
