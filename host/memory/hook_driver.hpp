// Calls one tier's hooks on given tensors, without a backbone: for analyses of one memory, and for
// tests against results of other programs.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>

#include "host/memory/interface/backbone_interface.hpp"
#include "host/memory/segment/segment_hooks.hpp"
#include "host/memory/stack/stack.hpp"
#include "host/memory/state/stack_state.hpp"

namespace mneme::memory {

// A layer given by its weights: no position terms, no dropout. Reference code, not fast.
class PlainLayer : public LayerServices {
 public:
  struct Weights {
    at::Tensor query, key, value;  // [H*d, D]
    at::Tensor output;             // [D, H*d]
    at::Tensor norm, norm_bias;    // [D]; undefined = the norm is the identity (post-norm)
  };
  PlainLayer(Weights weights, std::int64_t heads);

  at::Tensor norm(const at::Tensor& rows, bool weight_gradient) override;
  at::Tensor project(Projector which, const at::Tensor& rows, bool weight_gradient) override;
  at::Tensor weight(LayerWeight which) override;
  at::Tensor positions(std::int64_t /*least*/, std::int64_t /*count*/,
                       bool /*is_signed*/) override {
    return {};
  }
  // Errors: Error(kPlugin) when position terms or the content bias are asked for without
  // content_bias: this layer has none.
  double scale() override;
  AttentionResult attention(const AttentionCall& call) override;

 private:
  Weights weights_;
  std::int64_t heads_;
};

// One tier, loaded the real way, and its hooks on one state. Between begin() and commit() hooks may
// be called in any order that the contract allows, for segments of any length.
class HookDriver {
 public:
  // `memory` must hold exactly one tier. Errors: as Stack, Error(kUsage) for another number of
  // tiers.
  HookDriver(const config::MemoryConfig& memory, const BackboneInfo& backbone,
             plugin::PluginLoader& loader, Phase phase, std::int64_t lanes);
  ~HookDriver();
  HookDriver(const HookDriver&) = delete;
  HookDriver& operator=(const HookDriver&) = delete;

  Stack& stack() { return stack_; }
  StackState& state() { return state_; }
  // The running segment. Errors: Error(kRun) when none was begun.
  SegmentHooks& hooks();

  void begin(const SegmentInput& input);
  void commit();

 private:
  Stack stack_;
  StackState state_;
  std::unique_ptr<SegmentHooks> hooks_;
};

}  // namespace mneme::memory
