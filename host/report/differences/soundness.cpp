#include "host/report/differences/soundness.hpp"

#include <algorithm>
#include <iterator>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "host/config/toml/toml.hpp"
#include "host/report/choice/own_evaluation.hpp"

namespace mneme::report {
namespace {

// Checks of an arm with where they were made: "before training", "after training from seed 1".
struct Made {
  std::string when;
  const scores::MemoryChecks* checks = nullptr;  // nullptr = none
};

std::vector<Made> made_of(const Arm& arm) {
  std::vector<Made> out{{"before training", arm.checks ? &*arm.checks : nullptr}};
  for (const Run& run : arm.runs) {
    if (!run.is_done || run.error) continue;
    out.push_back(
        {str("after training from seed ", run.seed), run.checks ? &*run.checks : nullptr});
  }
  return out;
}

// Why not every check was made; "" = all were.
std::string why_unchecked(const Made& made) {
  if (made.checks == nullptr) return "no checks are stored";
  std::set<std::string> reasons;
  for (const scores::MemoryCheck& one : made.checks->checks) {
    if (one.result == scores::CheckResult::kNotChecked) reasons.insert(one.text);
  }
  if (reasons.empty() && made.checks->checks.empty()) return "no checks are stored";
  return join(std::vector<std::string>(reasons.begin(), reasons.end()), "; ");
}

// "is not causal", "keeps state over a reset", "has lanes that touch".
std::string predicate(std::string_view check) {
  if (check == "lanes") return "has lanes that touch";
  return (check == "causality" ? "is " : "") + scores::fault_words(check);
}

}  // namespace

std::string faults_of(const Arm& arm) {
  std::vector<std::string> words;
  for (const Made& made : made_of(arm)) {
    if (made.checks == nullptr) continue;
    for (const scores::MemoryCheck& one : made.checks->checks) {
      const std::string word = scores::fault_words(one.name);
      if (one.fails() && std::ranges::find(words, word) == words.end()) words.push_back(word);
    }
  }
  return join(words, ", ");
}

bool has_faults(const Comparison& comparison) {
  return std::ranges::any_of(comparison.arms,
                             [](const Arm& arm) { return !faults_of(arm).empty(); });
}

std::vector<std::string> check_sentences(const Comparison& comparison) {
  std::vector<std::string> out;
  std::vector<std::string> unchecked;
  for (const Arm& arm : comparison.arms) {
    std::set<std::string> said;
    std::string reason;
    for (const Made& made : made_of(arm)) {
      if (const std::string why = why_unchecked(made); !why.empty() && reason.empty()) {
        reason = str(arm.name, " ", made.when, " (", why, ")");
      }
      if (made.checks == nullptr) continue;
      for (const scores::MemoryCheck& one : made.checks->checks) {
        if (!one.fails() || !said.insert(one.name).second) continue;
        out.push_back(str(arm.name, ' ', predicate(one.name),
                          ": its numbers say nothing of its "
                          "memory. Found ",
                          made.when, ", ", one.text, '.'));
      }
    }
    if (!reason.empty()) unchecked.push_back(std::move(reason));
  }
  if (!unchecked.empty()) {
    out.push_back(str("Not checked for causality, resets and lanes: ", join(unchecked, ", "), '.'));
  }
  for (const ArmRun& of : runs_of(comparison)) {
    if (!of.run.certificate) continue;
    std::vector<std::string> lines;
    for (const scores::CertificateLine& one : of.run.certificate->lines) {
      if (one.fails()) lines.push_back(one.name);
    }
    if (lines.empty()) continue;
    out.push_back(str("The certificate of ", of.arm.name, " from seed ", of.run.seed, " fails in ",
                      join(lines, ", "), ": its loss depends on how it is computed."));
  }
  return out;
}

std::string other_settings_words(const Arm& arm, const Arm& baseline, const std::string& split) {
  const auto settings_of = [&](const Run* run) {
    const EvaluationSummary* const found = run == nullptr ? nullptr : run->find(split);
    return config::parse_toml(found == nullptr ? "" : word_at(found->record, "experiment"), split);
  };
  std::set<std::string> all;
  for (const Run& run : arm.runs) {
    const config::Value own = settings_of(&run);
    for (std::string& one : other_settings(own, settings_of(baseline.find(run.seed))))
      all.insert(std::move(one));
  }
  if (all.empty()) return "";
  return "the arms were evaluated with other settings: " +
         join(std::vector<std::string>(all.begin(), all.end()), ", ");
}

double last_fall(const Arm& arm) {
  std::vector<double> falls;
  for (const Run& run : arm.runs) {
    if (run.error || !run.is_done || run.curve.size() < 2) continue;
    const CurvePoint& last = run.curve.back();
    const double from = 0.9 * static_cast<double>(last.step);
    auto right = std::ranges::find_if(run.curve, [&](const CurvePoint& point) {
      return static_cast<double>(point.step) >= from;
    });
    if (right == run.curve.begin()) ++right;
    const CurvePoint& left = *std::prev(right);
    const double share = std::max(0.0, from - static_cast<double>(left.step)) /
                         static_cast<double>(right->step - left.step);
    falls.push_back(left.loss + share * (right->loss - left.loss) - last.loss);
  }
  return spread(falls).mean;
}

}  // namespace mneme::report
