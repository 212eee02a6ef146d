// How well a needle is found, by where it lies and how long its haystack is (docs/tasks.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "host/report/comparison/comparison.hpp"

namespace mneme::report {

// Sums over the targets of all sequences of one depth and length, of all seeds of an arm.
struct DepthCell {
  std::size_t arm = 0;
  std::string split = {};
  std::int64_t length = 0;  // of the haystack, data.length
  std::string depth = {};   // "0.2-0.3"; 0 = the prompt's beginning
  std::int64_t seeds = 0;   // runs with such sequences
  scores::Sums sums = {};
};

// True for a depth such as "0.2-0.3" with a length, a number.
[[nodiscard]] bool has_depth(const std::map<std::string, std::string>& groups);

// By split, arm, length and depth; empty for tasks without depths. Runs that failed are left out.
[[nodiscard]] std::vector<DepthCell> depth_cells(const Comparison& comparison);
// "pooled over facts, task": the other groups of which a split's cells have several; "" = none.
[[nodiscard]] std::string pooled_words(const Comparison& comparison, const std::string& split);

}  // namespace mneme::report
