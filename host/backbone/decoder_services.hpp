// memory::LayerServices (backbone_interface.hpp) as a layer of the decoder offers them to hooks.
#pragma once

#include <ATen/core/Tensor.h>

#include "host/backbone/layer.hpp"
#include "host/backbone/segment_scope.hpp"
#include "host/memory/interface/backbone_interface.hpp"

namespace mneme::backbone {

// One layer during one segment; lives as long as the layer's forward pass.
class DecoderServices final : public memory::LayerServices {
 public:
  DecoderServices(Layer& layer, SegmentScope& scope) : layer_(layer), scope_(scope) {}

  at::Tensor norm(const at::Tensor& rows, bool weight_gradient) override;
  at::Tensor project(memory::Projector which, const at::Tensor& rows,
                     bool weight_gradient) override;
  at::Tensor weight(memory::LayerWeight which) override;
  at::Tensor positions(std::int64_t least, std::int64_t count, bool is_signed) override;
  double scale() override;
  // Positions follow the layer's scheme (relative, alibi, rotary; none and learned have no term).
  // Errors: Error(kPlugin) for inputs of unequal dtype, biases of the relative scheme elsewhere,
  // half a virtual key.
  memory::AttentionResult attention(const memory::AttentionCall& call) override;

 private:
  Layer& layer_;
  SegmentScope& scope_;
};

}  // namespace mneme::backbone
