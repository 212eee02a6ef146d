// Calls one tier's hooks on given tensors: for conformance tests, and for fixtures of foreign
// backbones that are checked at hook level.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>

#include "host/memory/layer_services.hpp"
#include "host/memory/stack.hpp"

namespace mneme::memory {

// A layer given by its weights: no position terms, no dropout. Reference code, not fast.
class PlainLayer : public LayerServices {
 public:
  struct Weights {
    at::Tensor query, key, value;  // [H*d, D]
    at::Tensor output;             // [D, H*d]
    at::Tensor norm, norm_bias;    // [D]; undefined = the norm is the identity (post-norm)
  };
  PlainLayer(Weights weights, int64_t heads);

  at::Tensor norm(const at::Tensor& rows, bool weight_gradient) override;
  at::Tensor project(Projector which, const at::Tensor& rows, bool weight_gradient) override;
  at::Tensor weight(LayerWeight which) override;
  at::Tensor positions(int64_t /*least*/, int64_t /*count*/, bool /*is_signed*/) override {
    return {};
  }
  // Errors: Error(kPlugin) when position terms or the content bias are asked for without
  // content_bias: this layer has none.
  AttentionResult attention(const AttentionCall& call) override;

 private:
  const at::Tensor& raw(Projector which) const;

  Weights weights_;
  int64_t heads_;
};

// One tier, loaded the real way, and one run of it. Between begin() and commit() hooks may be
// called in any order that the contract allows, for segments of any length.
class HookDriver {
 public:
  // The manifest must hold exactly one tier. Errors: as Stack, Error(kUsage) for another number of
  // tiers.
  HookDriver(const config::MemoryConfig& memory, const BackboneInfo& backbone,
             plugin::PluginLoader& loader, Phase phase, int64_t lanes);
  ~HookDriver();
  HookDriver(const HookDriver&) = delete;
  HookDriver& operator=(const HookDriver&) = delete;

  Stack& stack() { return stack_; }
  StackState& state() { return state_; }
  // The running segment. Errors: Error(kRun) when none was begun.
  SegmentRun& run();

  void begin(const SegmentInput& input);
  // Calls absorb with exactly these rows: their graph is kept, so gradients into rows can be
  // checked. x and local as in SegmentRun.
  void absorb(int64_t layer, const Rows& rows, const at::Tensor& x, const LocalAttention& local,
              LayerServices& services);
  void commit();

 private:
  Stack stack_;
  StackState state_;
  std::unique_ptr<SegmentRun> run_;
};

// Finds the first tensor between host and hooks that is not finite. Runs do without; when a loss
// was not finite, its segments run once more with a FiniteWatch (SegmentInput::watch).

// Which numbers a tensor may hold.
enum class Holds {
  kFinite,    // finite ones
  kAbsent,    // -inf too, which says that something is absent
  kInfinite,  // any but NaN
};

// Lane of the first number of t [B,...] that it may not hold, 0 where there are no lanes; -1 =
// none.
int64_t first_bad_lane(const at::Tensor& t, Holds holds = Holds::kFinite);

// Records the first tensor from a hook that holds a forbidden number, provided that all tensors
// given to hooks before were finite. One thread at a time.
class FiniteWatch {
 public:
  // A tensor that the host gives to a hook.
  void takes(const at::Tensor& tensor);
  // A tensor that a hook returns or stores: `hook` names plugin, tier, hook and layer.
  void gives(const std::string& hook, const std::string& what, const at::Tensor& tensor,
             Holds holds = Holds::kFinite);
  // A result of one of its kernels, whose first dimension need not be lanes; a kernel may produce
  // infinities.
  void kernel_gives(const std::string& hook, const std::string& what, const at::Tensor& tensor);
  // "result of plugin ..., tier 0, hook read, layer 1, lane 0"; "" = none.
  const std::string& found() const { return found_; }
  bool is_looking() const { return found_.empty() && !is_spoilt_; }

 private:
  std::string found_;
  bool is_spoilt_ = false;  // a hook was given numbers that are not finite
};

}  // namespace mneme::memory
