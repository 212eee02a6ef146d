// The arm with which the others are compared.
#pragma once

#include <string>
#include <vector>

#include "host/report/comparison/comparison.hpp"

namespace mneme::report {

// Error (kUsage) listing the names of the arms when `baseline` is not among them.
void check_baseline(const std::vector<std::string>& arms, const std::string& baseline);

// Puts the arm in front of the others, whose order stays. Error (kUsage) as above.
void set_baseline(Comparison& comparison, const std::string& baseline);

}  // namespace mneme::report
