#include "host/report/comparison/depths.hpp"

#include <map>
#include <utility>

namespace mneme::report {
namespace {

using CellKey = std::pair<std::int64_t, std::string>;  // length, depth

void add_evaluation(const EvaluationSummary& evaluation, std::map<CellKey, DepthCell>& cells) {
  for (const GroupSums& group : evaluation.groups) {
    const auto depth = group.groups.find("depth");
    if (depth == group.groups.end()) continue;
    const std::int64_t length = std::stoll(group.groups.at("length"));
    DepthCell& cell = cells[{length, depth->second}];
    cell.length = length;
    cell.depth = depth->second;
    ++cell.seeds;
    cell.sums.add(group.sums);
  }
}

}  // namespace

std::vector<DepthCell> depth_cells(const Comparison& comparison) {
  std::vector<DepthCell> out;
  for (const std::string& split : comparison.splits) {
    for (std::size_t arm = 0; arm < comparison.arms.size(); ++arm) {
      std::map<CellKey, DepthCell> cells;
      for (const Run& run : comparison.arms[arm].runs) {
        if (run.error) continue;
        if (const EvaluationSummary* const own = run.find(split)) add_evaluation(*own, cells);
        for (const EvaluationSummary& other : run.other_lengths) {
          if (other.split == split) add_evaluation(other, cells);
        }
      }
      for (auto& [key, cell] : cells) {
        cell.arm = arm;
        cell.split = split;
        out.push_back(std::move(cell));
      }
    }
  }
  return out;
}

}  // namespace mneme::report
