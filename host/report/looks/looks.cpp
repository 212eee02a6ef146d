#include "host/report/looks/looks.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

namespace mneme::report {
namespace {

constexpr double kLevelOfLooks = 0.05;  // of all looks

std::string look_seeds(std::size_t seeds) { return str(seeds, seeds == 1 ? " seed" : " seeds"); }

Cell look_difference_cell(double value) {
  if (std::isnan(value)) return {"-", nullptr};
  return {signed_number(value), number_or_null(value)};
}

Cell look_p_cell(double value) {
  if (std::isnan(value)) return {"-", nullptr};
  return {positive_text(value), number_or_null(value)};
}

// As in other CSV files.
Json exact_look_number(double value) {
  if (std::isinf(value)) return value > 0.0 ? "inf" : "-inf";
  return number_or_null(value);
}

std::string decision_sentence(const Comparison& comparison, const Difference& one) {
  const std::string& arm = comparison.arms[one.arm].name;
  const std::size_t seeds = one.seeds.size();
  if (one.verdict == Verdict::kFaulty)
    return str(arm, " got no more than ", look_seeds(seeds), ": its difference says nothing.");
  return str(arm, is_decided(one) ? " was decided after " : " was not decided by ",
             look_seeds(seeds), '.');
}

}  // namespace

bool is_decided(const Difference& difference) {
  return difference.verdict != Verdict::kNoDifference && difference.verdict != Verdict::kUnknown;
}

std::string look_words(const Comparison& comparison, const Difference& one) {
  const std::string& arm = comparison.arms[one.arm].name;
  if (one.verdict == Verdict::kUnknown) return str(arm, " not compared (", one.reason(), ')');
  return str(arm, ' ', signed_number(one.mean), " (", signed_number(one.low), " to ",
             signed_number(one.high), ", p ", positive_text(one.adjusted_p), " at a level of ",
             kLevelOfLooks, " over all looks), ", is_decided(one) ? "decided" : "not decided");
}

std::optional<Statement> looks_statement(const Comparison& comparison,
                                         const std::vector<Difference>& differences) {
  if (!comparison.looks) return std::nullopt;
  const auto& [plan, split] = *comparison.looks;
  Statement out{.summary = str("Seeds were added until the difference in loss on ", split,
                               " was decided, ", plan.max_seeds(), " at most, with a look after ",
                               "each from ", plan.first_look(), " on: every interval and p here ",
                               "holds for looking early.")};
  for (const Difference& one : differences) {
    const bool decides = one.split == split && one.measure == Measure::kLoss;
    if (decides && one.verdict != Verdict::kUnknown)
      out.sentences.push_back(decision_sentence(comparison, one));
  }
  return out;
}

std::string looks_note(const Comparison& comparison) {
  if (!comparison.looks) return "";
  const stats::LookPlan& plan = comparison.looks->plan;
  return str("Intervals and p hold for looks after every seed from ", plan.first_look(), " to ",
             plan.max_seeds(), ".");
}

Sheet looks_sheet(const Comparison& comparison) {
  Sheet out{.key = "looks", .title = "Looks"};
  if (!comparison.looks) return out;
  const stats::LookPlan& plan = comparison.looks->plan;
  out.title = str("Looks at the loss on ", comparison.looks->split);
  out.headings = {"",   "verdict", "seeds",    "difference", "95 % from",
                  "to", "p",       "p (Holm)", "level"};
  out.records.columns = {"arm",  "baseline", "split",  "seeds", "difference", "low",
                         "high", "p",        "p_holm", "level", "verdict"};
  std::vector<std::size_t> seen(comparison.arms.size(), 0);  // seeds of each arm's last look
  for (std::size_t seeds = plan.first_look(); seeds <= comparison.seeds.size(); ++seeds) {
    for (const Difference& one : look_differences(comparison, seeds)) {
      const std::size_t has = one.seeds.size();
      // One that was decided before has no further seeds, nor has one that lacks this seed.
      if (has <= seen[one.arm] || !one.statistics) continue;
      seen[one.arm] = has;
      const double level = plan.nominal_level(has, kLevelOfLooks);
      const std::string& arm = comparison.arms[one.arm].name;
      out.rows.push_back({Cell(arm), Cell(verdict_word(one)), Cell(str(has), has),
                          look_difference_cell(one.mean), look_difference_cell(one.low),
                          look_difference_cell(one.high), look_p_cell(one.p),
                          look_p_cell(one.adjusted_p), look_p_cell(level)});
      out.records.rows.push_back({arm, comparison.arms[one.baseline].name, one.split, has,
                                  exact_look_number(one.mean), exact_look_number(one.low),
                                  exact_look_number(one.high), exact_look_number(one.p),
                                  exact_look_number(one.adjusted_p), level, verdict_word(one)});
    }
  }
  out.notes.push_back(
      str("Intervals hold at all looks together in 95 % of experiments, and p is at most ",
          kLevelOfLooks,
          " at any look in 5 % of those without a difference. Level: what the look's own p, before "
          "this correction, has to reach for one arm."));
  return out;
}

Json json_of_looks(const Comparison& comparison) {
  if (!comparison.looks) return nullptr;
  const auto& [plan, split] = *comparison.looks;
  return {{"max_seeds", plan.max_seeds()}, {"first_look", plan.first_look()}, {"split", split}};
}

}  // namespace mneme::report
