// A tier, one configured memory plugin: its options, its instances and its parameters.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "host/config/experiment.hpp"
#include "host/config/options.hpp"
#include "host/memory/interface/backbone_interface.hpp"
#include "host/memory/tier/instance.hpp"
#include "host/memory/tier/tier_parameter.hpp"
#include "host/plugin/loader.hpp"
#include "host/plugin/plugin_options.hpp"

namespace mneme::memory {

// One [[memory.tier]] of the memory file, which may be the [memory] table of an experiment file.
class Tier {
 public:
  Tier(std::int64_t index, const config::TierConfig& config,
       const std::vector<std::string>& folders, const BackboneInfo& backbone,
       plugin::PluginLoader& loader);

  [[nodiscard]] const std::shared_ptr<Instance>& shared_instance(Phase phase) const {
    return phase == Phase::kEvaluation && evaluation_ != nullptr ? evaluation_ : training_;
  }
  [[nodiscard]] const Instance& instance(Phase phase) const { return *shared_instance(phase); }
  [[nodiscard]] std::int64_t index() const { return index_; }
  [[nodiscard]] const std::string& name() const { return name_; }  // "<index>.<plugin id>"
  [[nodiscard]] const config::TierConfig& config() const { return config_; }
  // The options that the plugin publishes, and their values in training.
  [[nodiscard]] const std::vector<config::OptionSpec>& option_specs() const {
    return option_specs_;
  }
  [[nodiscard]] const config::OptionMap& options() const { return options_; }
  [[nodiscard]] const std::vector<std::int64_t>& served() const { return served_; }
  // Index among the served layers, -1 when the layer is not served.
  [[nodiscard]] std::int64_t served_index(std::int64_t layer) const;
  [[nodiscard]] double loss_weight(const std::string& loss) const;
  [[nodiscard]] const plugin::LossNames& loss_names() const { return loss_names_; }

  // The tensor of the parameter that is declared at `place`, for a served layer (-1: model scope).
  [[nodiscard]] const at::Tensor& parameter(std::size_t place, std::int64_t served_index) const;
  void describe_parameters(std::vector<TierParameter>& out) const;
  // Draws the initial values of this tier's parameters that are among `names` (as
  // describe_parameters gives them).
  void draw_parameters(const std::vector<std::string>& names, const BackboneInfo& backbone);

 private:
  void make_parameters(const BackboneInfo& backbone);
  // "memory.<tier>.<layer or "model">.<name>" of a declared parameter's copy.
  [[nodiscard]] std::string parameter_name(const ParameterDecl& decl, std::size_t copy) const;

  std::int64_t index_;
  config::TierConfig config_;
  std::string where_;
  std::string name_;
  std::vector<config::OptionSpec> option_specs_;
  config::OptionMap options_;
  plugin::LossNames loss_names_;
  std::vector<std::int64_t> served_;
  std::shared_ptr<Instance> training_;
  std::shared_ptr<Instance> evaluation_;             // null when no eval_<option> is given
  std::vector<std::vector<at::Tensor>> parameters_;  // [place][served layer, or 0 for model scope]
};

}  // namespace mneme::memory
