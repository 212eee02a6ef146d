// The arm with which the others are compared, and the arms that a reader expects.
#pragma once

#include <string>
#include <vector>

#include "host/report/comparison/comparison.hpp"

namespace mneme::report {

// Error (kUsage) listing the names of the arms when `baseline` is not among them.
void check_baseline(const std::vector<std::string>& arms, const std::string& baseline);

// Puts the arm in front of the others, whose order stays. Error (kUsage) as above.
void set_baseline(Comparison& comparison, const std::string& baseline);

// A baseline that a reader expects, and that no arm is.
struct MissingBaseline {
  std::string name = {};   // of its file in configs/memory: "window"
  std::string words = {};  // "a window of equal bytes"
};

// Of no memory, a window of equal bytes, a window with sinks and attention to everything, in this
// order; empty where there are fewer than two arms. An arm without tiers has no memory. The others
// are known by the name of their memory file, or of the arm where the file is not known. A window
// is missing too where its bytes of state differ by more than 5 % from those of an arm that is no
// baseline itself: such arms are named.
[[nodiscard]] std::vector<MissingBaseline> missing_baselines(const Comparison& comparison);
// In a sentence; "" = none is missing.
[[nodiscard]] std::string missing_baselines_note(const Comparison& comparison);

}  // namespace mneme::report
