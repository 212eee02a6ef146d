// A small backbone description, a layer with random weights, and the [memory] of one test memory.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>

#include "host/memory/hook_driver.hpp"
#include "host/plugin/loader.hpp"

namespace mneme::memory {

inline constexpr int64_t kLanes = 3;
inline constexpr int64_t kWidth = 6;
inline constexpr int64_t kHeads = 2;
inline constexpr int64_t kHeadWidth = 4;

plugin::PluginLoader& test_loader();
BackboneInfo test_backbone(int64_t bptt_segments = 1);
// [[memory.tier]] plugin = "test_<name>" with `options` as TOML lines.
config::MemoryConfig manifest(const std::string& name, const std::string& options = "");
// [memory] with several tiers: TOML text of [[memory.tier]] tables.
config::MemoryConfig manifest_text(const std::string& tiers);
// Random f64 weights from `seed`.
PlainLayer test_layer(uint64_t seed);
// Standard normal f64, the same for the same seed.
at::Tensor random(at::IntArrayRef shape, uint64_t seed);

// The results of one layer for x [B,T,D]: q, k, v and causal local attention, and the result at
// HEADS after the memory's read.
struct LayerPass {
  LocalAttention local;
  at::Tensor merged;     // [B,T,H,d]
  at::Tensor projected;  // [B,T,D] after the OUT site
};
// Runs stages 2 to 7 of a segment for one layer; the driver's segment must have begun.
LayerPass pass_layer(HookDriver& driver, PlainLayer& layer, const at::Tensor& x, int64_t index = 0);

// One committed segment of layer 0 with x [B,T,D] as its input; returns what the memory showed in
// it, as one vector: sums of its context blocks' rows, then the OUT site's result.
at::Tensor step(Stack& stack, StackState& state, PlainLayer& layer, const at::Tensor& x);

}  // namespace mneme::memory
