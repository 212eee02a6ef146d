// One layer of the plugin continuous_ltm behind the real host: loader, stack, hooks and autograd.
#pragma once

#include <string>

#include "bench/continuous_ltm/settings.hpp"
#include "host/memory/abi/groups.hpp"
#include "host/memory/hook_driver.hpp"
#include "host/plugin/loader.hpp"

namespace mneme::bench {

class PluginLtm {
 public:
  // `options`: further lines of the tier's table. The plugin's parameters are copies of
  // `parameters`. Errors: Error when the plugin has another set of parameters.
  PluginLtm(const LtmSettings& settings, const LtmParameters& parameters,
            const std::string& options = "");

  // Absorbs inputs.rows and reads with inputs.q, as one committed segment.
  LtmOutcome step(const LtmInputs& inputs);
  // The two halves, between begin() and commit().
  void begin();
  void absorb(const LtmInputs& inputs);
  at::Tensor read(const LtmInputs& inputs);
  at::Tensor auxiliary_loss();
  void commit();
  // Starts afresh with the next segment.
  void reset() { driver_.state().reset_all(); }

  // In the order and form of LtmParameters::all().
  const std::vector<at::Tensor>& parameters() const { return parameters_; }
  // Gradients in the same order and form; undefined where none arrived.
  std::vector<at::Tensor> gradients() const;
  int64_t state_bytes() const { return state_.bytes(); }

 private:
  LtmSettings settings_;
  plugin::PluginLoader loader_ = memory::make_loader();
  memory::HookDriver driver_;
  memory::StackState& state_;
  memory::PlainLayer layer_;
  std::vector<at::Tensor> parameters_;
};

}  // namespace mneme::bench
