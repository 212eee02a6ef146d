// A model with memories around it, run segment by segment; and gradients held to differences.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "host/backbone/model.hpp"
#include "host/memory/abi/groups.hpp"
#include "host/memory/segment/segment_hooks.hpp"
#include "host/memory/stack.hpp"
#include "host/memory/state/stack_state.hpp"
#include "host/plugin/loader.hpp"

namespace mneme::backbone {

// [memory] with these plugin folders; `tiers` is the TOML text of its [[memory.tier]] tables.
config::MemoryConfig memory_of(const std::vector<std::string>& folders, const std::string& tiers);

// How one segment of a session differs from a plain one.
struct SegmentHow {
  std::vector<int64_t> valid_count = {};           // [B] tokens that are no padding; empty = all
  std::set<std::string, std::less<>> probes = {};  // wanted ones, by the plugins' names
  ForwardOptions::Tap* tap = nullptr;
};

// The outputs of the session.
struct SegmentResult {
  at::Tensor nll;   // [B,T], 0 at padding
  at::Tensor top;   // [B,T,D]
  at::Tensor loss;  // [], the mean nll and the memories' auxiliary losses
  at::Tensor aux;   // [], the auxiliary losses alone; undefined when there was none
  std::map<std::string, at::Tensor> probes;   // "<tier>.<plugin>.<layer>.<name>"
  std::map<std::string, at::Tensor> metrics;  // "<tier>.<plugin>.<name>"
};

struct MemorySession {
  using How = SegmentHow;
  using Result = SegmentResult;
  std::unique_ptr<Model> model;
  plugin::PluginLoader loader{memory::find_group};
  memory::Stack stack;

  MemorySession(const config::ModelConfig& config, const ModelSetup& setup,
                const config::MemoryConfig& memory);

  memory::StackState fresh(int64_t lanes, memory::Phase phase = memory::Phase::kTraining) const {
    return stack.new_state(phase, lanes);
  }
  // One committed segment of ids [B,T+1].
  Result run(memory::StackState& state, const at::Tensor& ids, const How& how = {});
  at::Tensor nll(memory::StackState& state, const at::Tensor& ids) { return run(state, ids).nll; }
  at::Tensor loss(memory::StackState& state, const at::Tensor& ids) { return run(state, ids).loss; }
  // ids [B,n+1] in segments of these lengths: nll [B,n].
  at::Tensor nll(memory::StackState& state, const at::Tensor& ids,
                 const std::vector<int64_t>& lengths);
  // A parameter of the model, or of a tier by the end of its name. Fails when there is none.
  at::Tensor parameter(const std::string& name) const;
};

// ||gradient - central differences|| / ||central differences|| of loss() along `directions` random
// directions of a leaf, each of which moves all its elements, or along each element where the leaf
// has no more. Infinite when the differences vanish: nothing was compared.
// Steps are short, so that few places lie near a kink of the feed-forward's ReLU; a leaf that moves
// the loss by little needs longer ones, or the loss's rounding is what is measured.
constexpr double kShortStep = 1e-5;
double gradient_error(at::Tensor leaf, const std::function<at::Tensor()>& loss, int64_t directions,
                      double step = kShortStep);

}  // namespace mneme::backbone
