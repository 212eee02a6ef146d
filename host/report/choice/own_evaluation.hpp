// Which stored evaluations of a run folder are of the run as it was trained.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "host/base/text.hpp"
#include "host/config/toml/toml.hpp"

namespace mneme::report {

// Equal as far as both say: older descriptions may lack a key, and those of an evaluation the
// splits that it did not need.
[[nodiscard]] bool agree(const Json& a, const Json& b);

// Needles in haystacks that are longer or shorter, all else being equal: their length; else 0.
[[nodiscard]] std::int64_t other_length(Json data, Json own);

// Whether an experiment has a run's own [memory], and its [model] as far as both say, but for the
// kernels, which do not change losses. python/mneme/choice.py does the same.
[[nodiscard]] bool has_own_model(const config::Value& own, const config::Value& used);

// Whether [eval] is equal.
[[nodiscard]] bool has_equal_settings(const config::Value& a, const config::Value& b);
// "eval.segment 64 and 8": the keys of [eval] that both have with different values, but for lanes.
[[nodiscard]] std::vector<std::string> other_settings(const config::Value& a,
                                                      const config::Value& b);

}  // namespace mneme::report
