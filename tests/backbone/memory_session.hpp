// A model with memories around it, run segment by segment; and gradients held to differences.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "host/backbone/model.hpp"
#include "host/memory/loader.hpp"
#include "host/memory/stack.hpp"

namespace mneme::backbone {

// [memory] with these plugin folders; `tiers` is the TOML text of its [[memory.tier]] tables.
config::MemoryConfig memory_of(const std::vector<std::string>& folders, const std::string& tiers);

struct MemorySession {
  std::unique_ptr<Model> model;
  memory::PluginLoader loader;
  memory::Stack stack;

  MemorySession(const config::ModelConfig& config, const ModelSetup& setup,
                const config::MemoryConfig& memory);

  memory::StackState fresh(int64_t lanes, memory::Phase phase = memory::Phase::kTraining) const {
    return stack.new_state(phase, lanes);
  }
  // One committed segment of ids [B,T+1]: nll [B,T].
  at::Tensor nll(memory::StackState& state, const at::Tensor& ids) { return run(state, ids).nll; }
  // The same as a loss: the mean nll and the memories' auxiliary losses.
  at::Tensor loss(memory::StackState& state, const at::Tensor& ids) { return run(state, ids).loss; }
  // ids [B,n+1] in segments of these lengths: nll [B,n].
  at::Tensor nll(memory::StackState& state, const at::Tensor& ids,
                 const std::vector<int64_t>& lengths);
  // A parameter of the model, or of a tier by the end of its name. Fails when there is none.
  at::Tensor parameter(const std::string& name) const;

 private:
  struct Result {
    at::Tensor nll, loss;
  };
  Result run(memory::StackState& state, const at::Tensor& ids);
};

// ||gradient - central differences|| / ||central differences|| of loss() over `samples` elements of
// a leaf (all, where it has no more). Infinite when the differences vanish: nothing was compared.
double gradient_error(at::Tensor leaf, const std::function<at::Tensor()>& loss, int64_t samples);

}  // namespace mneme::backbone
