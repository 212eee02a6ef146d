// The rows that a trained model would store in a memory.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "host/data/split.hpp"
#include "host/run/runtime.hpp"

namespace mneme::analyze {

// The inputs of a layer (before its norm) for the first `count` tokens of a split, read by one lane
// with the model's own memory: [count, D] f64 on the CPU. Errors: Error (kUsage) for a layer that
// the model lacks, for a split without data, and for one with fewer tokens, padding left out; what
// Model::forward and hooks throw.
[[nodiscard]] at::Tensor hidden_rows(run::Runtime& runtime, data::Split split, std::int64_t layer,
                                     std::int64_t count);

}  // namespace mneme::analyze
