// An evaluation of the beginning of a split.
#pragma once

#include <cstdint>

#include "host/data/corpus/corpus.hpp"
#include "host/eval/evaluator.hpp"
#include "host/run/runtime.hpp"

namespace mneme::run {

// As Runtime::evaluate, of the first `segments` segments of the split at most; 0 = of all of them.
[[nodiscard]] eval::Result evaluate_first(Runtime& runtime, data::Split split,
                                          std::int64_t segments, eval::Options options = {});

}  // namespace mneme::run
