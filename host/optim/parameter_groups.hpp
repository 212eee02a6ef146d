// How each parameter is optimised: learning rate, weight decay and rule.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "host/backbone/model.hpp"
#include "host/config/experiment.hpp"
#include "host/memory/stack/stack.hpp"

namespace mneme::optim {

// A leaf tensor of the model or of a tier, and how it is optimised.
struct TrainableParameter {
  std::string name;  // "model.<name>" or TierParameter::name
  at::Tensor tensor;
  double lr = 0.0;            // base learning rate, which the schedule scales
  double weight_decay = 0.0;  // 0 = none
  // What set the learning rate, for reports: "model", "memory.<tier>" or "group.<index>", with
  // " x <factor>" where the plugin scales it. Equal names have equal rates.
  std::string rate = "model";
  // train.freeze: it has no gradient and no moments.
  bool is_frozen = false;
  bool by_muon = false;  // else by Adam or AdamW
};

// The parameters of a backbone and its memory, the backbone's first. In order of precedence:
//
//   learning rate  the first [[train.group]] with `lr` that names the parameter; the tier's own
//                  `lr`; train.lr. A tier's parameters have it times the plugin's factor.
//   weight decay   the first [[train.group]] that names it, when that has `weight_decay`; 0 for the
//                  plugin's group "none"; the tier's own `weight_decay`; 0 for biases, norms and
//                  other vectors; train.weight_decay.
//
//   by_muon        with train.optimizer = "muon": the first [[train.group]] that names it, when that
//                  has `optimizer`; else for matrices (is_matrix) of the backbone's layers and of
//                  tiers, but not for embeddings, the output layer, position biases and parameters
//                  of a plugin's group "none".
//
// Only the first group that names a parameter counts for it, whichever of the two it sets. With
// train.freeze = "backbone" the backbone's are frozen, whatever groups say.
[[nodiscard]] std::vector<TrainableParameter> group_parameters(
    const config::TrainConfig& train, const std::vector<backbone::Parameter>& backbone,
    const std::vector<memory::TierParameter>& tiers);

// What updates a parameter: "adam", "adamw", "muon", or "none" where it is frozen.
[[nodiscard]] std::string rule_of(const config::TrainConfig& train,
                                  const TrainableParameter& parameter);

// Error (kUsage) for the first of these parameters that a [[train.group]] with `optimizer` = "muon"
// gives to Muon and that is no matrix. They may be a part of all.
void check_matrices(const config::TrainConfig& train,
                    const std::vector<TrainableParameter>& parameters);

// Of all parameters: Error (kUsage) for a pattern of a [[train.group]] that names none, with the
// nearest one, and as check_matrices.
void check_groups(const config::TrainConfig& train,
                  const std::vector<TrainableParameter>& parameters);

// True when `name` fits `pattern`, in which "*" stands for any characters.
[[nodiscard]] bool matches(std::string_view pattern, std::string_view name);

// Error (kUsage) when train.freeze leaves no parameter to train.
void check_frozen(const std::vector<TrainableParameter>& parameters);

// One line for the backbone and one for each tier that has some of these parameters
// (Optimizer::untrained) after `steps` steps, naming the first of them.
[[nodiscard]] std::vector<std::string> untrained_lines(const std::vector<std::string>& untrained,
                                                       const memory::Stack& stack,
                                                       std::int64_t steps);

}  // namespace mneme::optim
