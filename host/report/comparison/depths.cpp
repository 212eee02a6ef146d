#include "host/report/comparison/depths.hpp"

#include <regex>
#include <set>
#include <utility>

namespace mneme::report {
namespace {

using CellKey = std::pair<std::int64_t, std::string>;  // length, depth

// `seen`: the cells that the run has counted in already.
void add_evaluation(const EvaluationSummary& evaluation, std::map<CellKey, DepthCell>& cells,
                    std::set<CellKey>& seen) {
  for (const GroupSums& group : evaluation.groups) {
    if (!has_depth(group.groups)) continue;
    const std::string& depth = group.groups.at("depth");
    const std::int64_t length = std::stoll(group.groups.at("length"));
    const CellKey key(length, depth);
    DepthCell& cell = cells[key];
    cell.length = length;
    cell.depth = depth;
    if (seen.insert(key).second) ++cell.seeds;
    cell.sums.add(group.sums);
  }
}

}  // namespace

bool has_depth(const std::map<std::string, std::string>& groups) {
  static const std::regex kTenth("0\\.[0-9]-(0\\.[1-9]|1\\.0)"), kLength("[1-9][0-9]{0,8}");
  const auto depth = groups.find("depth");
  const auto length = groups.find("length");
  return depth != groups.end() && length != groups.end() &&
         std::regex_match(depth->second, kTenth) && std::regex_match(length->second, kLength);
}

std::vector<DepthCell> depth_cells(const Comparison& comparison) {
  std::vector<DepthCell> out;
  for (const std::string& split : comparison.splits) {
    for (std::size_t arm = 0; arm < comparison.arms.size(); ++arm) {
      std::map<CellKey, DepthCell> cells;
      for (const Run& run : comparison.arms[arm].runs) {
        if (run.error) continue;
        std::set<CellKey> seen;
        if (const EvaluationSummary* const own = run.find(split)) add_evaluation(*own, cells, seen);
        for (const EvaluationSummary& other : run.other_lengths) {
          if (other.split == split) add_evaluation(other, cells, seen);
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

std::string pooled_words(const Comparison& comparison, const std::string& split) {
  std::map<std::string, std::set<std::string>> values;  // by name of the group
  for (const auto& [arm, run] : runs_of(comparison)) {
    const EvaluationSummary* const found = run.error ? nullptr : run.find(split);
    if (found == nullptr) continue;
    for (const GroupSums& group : found->groups) {
      if (!has_depth(group.groups)) continue;
      for (const auto& [name, value] : group.groups) values[name].insert(value);
    }
  }
  std::vector<std::string> names;
  for (const auto& [name, of] : values) {
    if (name != "depth" && name != "length" && of.size() > 1) names.push_back(name);
  }
  return names.empty() ? "" : "pooled over " + join(names, ", ");
}

}  // namespace mneme::report
