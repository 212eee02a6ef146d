// What a suite says over all its tasks: aggregates of their accuracies, and performance profiles.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "host/figure/figure.hpp"
#include "host/report/sheet/sheet.hpp"

namespace mneme::report {

// Keys of the tables, and names of their files.
inline constexpr const char* kAggregatesKey = "suite-aggregates";
inline constexpr const char* kProfilesKey = "suite-profiles";

// The numbers behind a suite's table.
struct SuiteScores {
  struct Task {
    std::string name = {};
    bool is_accuracy = true;                                 // false: a loss
    double chance = 0.0;                                     // accuracy of guessing; 0 = not known
    std::map<std::string, std::vector<double>> values = {};  // by arm: of the seeds that are known
  };
  std::vector<Task> tasks = {};
  std::vector<std::string> arms = {};  // the first is the baseline
  std::set<std::string> faulty_arms = {};
};

struct SuiteAggregates {
  std::vector<Sheet> sheets = {};  // kAggregatesKey, kProfilesKey; none: `why_none` says why
  std::vector<figure::Figure> figures = {};  // kProfilesKey
  std::string why_none = {};
};

// Of the arms that have every seed of every task with an accuracy, by stats/aggregates.hpp. A score
// is (accuracy - chance) / (1 - chance), the accuracy itself where chance is not known. Notes name
// tasks and arms that are left out. Needs two tasks and two seeds. Deterministic.
[[nodiscard]] SuiteAggregates aggregate_suite(const SuiteScores& scores);

}  // namespace mneme::report
