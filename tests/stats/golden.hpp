// Numbers that scipy, numpy and statsmodels computed (make_golden.py).
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace mneme::stats {

// The part of tests/stats/golden.json called `name`. Throws where it is missing.
const nlohmann::json& golden(const std::string& name);

}  // namespace mneme::stats
