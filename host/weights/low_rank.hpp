// Low-rank updates of a stored model, for forms that have no place for them.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "host/run/checkpoint/checkpoint.hpp"

namespace mneme::weights {

// The parameter `name` ("model.layers.0.attention.qkv.weight") of a checkpoint with its low-rank
// update, in its own dtype: over the file's bytes where there is no update, or one that was not
// trained.
[[nodiscard]] at::Tensor merged_parameter(const run::Checkpoint& checkpoint,
                                          const std::string& name);

}  // namespace mneme::weights
