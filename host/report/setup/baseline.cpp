#include "host/report/setup/baseline.hpp"

#include <algorithm>

#include "host/base/error.hpp"
#include "host/base/text.hpp"

namespace mneme::report {

void check_baseline(const std::vector<std::string>& arms, const std::string& baseline) {
  if (std::ranges::find(arms, baseline) != arms.end()) return;
  throw_usage({.where = "--baseline",
               .failed = "the comparison has no such arm",
               .expected = quoted_list(arms),
               .got = str('"', baseline, '"')});
}

void set_baseline(Comparison& comparison, const std::string& baseline) {
  std::vector<std::string> names;
  for (const Arm& arm : comparison.arms) names.push_back(arm.name);
  check_baseline(names, baseline);
  const auto found = std::ranges::find(comparison.arms, baseline, &Arm::name);
  std::rotate(comparison.arms.begin(), found, found + 1);
}

}  // namespace mneme::report
