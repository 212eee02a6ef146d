#include "host/cli/report/compared_arms.hpp"

#include <utility>

#include "host/report/comparison/load.hpp"
#include "host/report/setup/baseline.hpp"

namespace mneme::cli {

void ComparedArms::add(const Command& command) {
  command.option("--baseline", baseline, "ARM",
                 "The arm with which the others are compared; default: the first",
                 {not_empty("an arm")});
  command.flag("--pairs", has_pairs,
               "Compare every arm with every other, too: a table of its own, with a correction for "
               "all pairs");
  command.option(
      "--margin", margin, "NATS",
      "Also say which arms' losses are not higher than the baseline's by more than this, "
      "in nats a token: 0.005",
      {above_zero});
}

report::Report ComparedArms::report_of(const std::vector<std::filesystem::path>& folders) const {
  report::Comparison comparison = report::load(folders);
  if (!baseline.empty()) report::set_baseline(comparison, baseline);
  return report::make_report(std::move(comparison), has_pairs, margin);
}

}  // namespace mneme::cli
