#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>

namespace mneme::memory {

// A parameter that a tier declared. The tensor is a leaf that requires grad; the host owns,
// optimises and saves it.
struct TierParameter {
  std::string name;  // memory.<index>.<plugin id>.<layer or "model">.<name>
  std::string tier;  // "<index>.<plugin id>"
  at::Tensor tensor;
  double lr_factor = 1.0;              // the plugin's factor on the learning rate
  std::optional<double> lr;            // the tier's `lr` in the memory file, in place of train.lr
  std::string group;                   // weight-decay group; "" = the backbone's rule
  std::optional<double> weight_decay;  // the tier's value in the memory file
};

}  // namespace mneme::memory
