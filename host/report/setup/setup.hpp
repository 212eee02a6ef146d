// What was trained on what, in a few lines: the head of a report.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "host/report/comparison/comparison.hpp"

namespace mneme::report {

// Name and value of each fact that is known: "data" (task, corpus and its size), "vocabulary",
// "model", "training" (steps, tokens), "time" (hours, processor). Where arms differ in a number, it
// is a range over the arms: "40 to 120 steps".
[[nodiscard]] std::vector<std::pair<std::string, std::string>> setup_facts(
    const Comparison& comparison);

}  // namespace mneme::report
