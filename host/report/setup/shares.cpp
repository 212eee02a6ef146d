#include "host/report/setup/shares.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <vector>

#include "host/base/text.hpp"

namespace mneme::report {
namespace {

// Targets that the whole split has; 0 = not known, or without end.
std::int64_t all_targets(const EvaluationSummary& evaluation) {
  static const Json::json_pointer kTargets("/result/protocol/targets");
  if (!evaluation.record.is_object() || !evaluation.record.contains(kTargets)) return 0;
  const Json& targets = evaluation.record.at(kTargets);
  return targets.is_number_integer() ? targets.get<std::int64_t>() : 0;
}

// Of the runs that have results, in the order of arms and seeds.
std::vector<const EvaluationSummary*> evaluations_of(const Comparison& comparison,
                                                     const std::string& split) {
  std::vector<const EvaluationSummary*> out;
  for (const auto& [arm, run] : runs_of(comparison)) {
    const EvaluationSummary* const found = run.error ? nullptr : run.find(split);
    if (found != nullptr) out.push_back(found);
  }
  return out;
}

// Rounded down: a split that was cut is never called read.
std::string floored_percent(double share) {
  return format_number(std::floor(1000.0 * share) / 10.0, 1);
}

}  // namespace

std::optional<double> share_of(const EvaluationSummary& evaluation) {
  const std::int64_t all = all_targets(evaluation);
  if (all <= 0) return std::nullopt;
  return std::min(1.0, static_cast<double>(evaluation.total.targets) / static_cast<double>(all));
}

std::optional<double> partial_share(const EvaluationSummary& evaluation) {
  const std::optional<double> share = share_of(evaluation);
  return share && *share < 1.0 ? share : std::nullopt;
}

std::string share_words(const Comparison& comparison, const std::string& split) {
  std::vector<double> shares;
  for (const EvaluationSummary* const one : evaluations_of(comparison, split)) {
    shares.push_back(partial_share(*one).value_or(1.0));
  }
  if (shares.empty()) return "";
  const auto [least, most] = std::ranges::minmax(shares);
  if (least >= 1.0) return "";
  const std::string low = floored_percent(least), high = floored_percent(most);
  return str(low, low == high ? "" : " to " + high, " % of ", split, " was read");
}

std::string share_suffix(const Comparison& comparison) {
  std::vector<std::string> parts;
  for (const std::string& split : comparison.splits) {
    if (std::string words = share_words(comparison, split); !words.empty())
      parts.push_back(std::move(words));
  }
  return parts.empty() ? "" : " (" + join(parts, "; ") + ')';
}

std::string share_sentence(const Comparison& comparison, const std::string& split) {
  const std::string words = share_words(comparison, split);
  if (words.empty()) return "";
  const std::vector<const EvaluationSummary*> all = evaluations_of(comparison, split);
  const auto first = std::ranges::find_if(
      all, [](const EvaluationSummary* one) { return partial_share(*one).has_value(); });
  return str("Only a part of the split was read: ", words, ", ",
             grouped_number(static_cast<double>((*first)->total.targets)), " of ",
             grouped_number(static_cast<double>(all_targets(**first))),
             " targets, because eval.steps ended the evaluation; eval.steps = 0 reads all.");
}

}  // namespace mneme::report
