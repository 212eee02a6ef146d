#include "host/report/differences/differences.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <set>
#include <span>
#include <utility>

#include "host/base/text.hpp"
#include "host/report/differences/soundness.hpp"
#include "host/stats/blocks.hpp"
#include "host/stats/holm.hpp"
#include "host/stats/looks.hpp"
#include "host/stats/paired.hpp"

namespace mneme::report {
namespace {

// An arm and the baseline that it is compared with.
struct ArmPair {
  std::size_t baseline = 0;
  std::size_t arm = 0;
};

// Evaluations of one seed.
struct Pair {
  std::uint64_t seed = 0;
  const EvaluationSummary* baseline = nullptr;
  const EvaluationSummary* arm = nullptr;
};

// Of the first `seeds` of the comparison's.
std::vector<Pair> pairs_of(const Comparison& comparison, ArmPair arms, const std::string& split,
                           std::size_t seeds) {
  std::vector<Pair> out;
  const std::span all(comparison.seeds);
  for (const std::uint64_t seed : all.first(std::min(seeds, all.size()))) {
    const Run* const baseline = comparison.arms[arms.baseline].find(seed);
    const Run* const arm = comparison.arms[arms.arm].find(seed);
    if (baseline == nullptr || arm == nullptr || baseline->error || arm->error) continue;
    const Pair pair{.seed = seed, .baseline = baseline->find(split), .arm = arm->find(split)};
    if (pair.baseline != nullptr && pair.arm != nullptr) out.push_back(pair);
  }
  return out;
}

// Sums of both arms by seed and unit, and what is common to all seeds.
struct Units {
  std::vector<std::vector<double>> baseline = {};  // [seed][unit]
  std::vector<std::vector<double>> arm = {};
  std::vector<double> targets = {};  // [unit]
  std::int64_t left_out = 0;         // samples that some evaluation lacks, or has other targets of
  std::int64_t block = 0;            // targets of a block; 0 = the units are samples
  double autocorrelation = 0.0;      // between neighbouring blocks
  bool are_correlated = false;       // the blocks, at every length that was tried
  std::vector<std::string> warnings = {};
};

// The samples or dialogues, by id, that all evaluations have with an equal key, with their numbers
// of targets and their values.
template <typename Item, typename KeyOf, typename TargetsOf, typename ValueOf>
Units common_units(const std::vector<Pair>& pairs, std::vector<Item> EvaluationSummary::*items,
                   KeyOf key_of, TargetsOf targets_of, const ValueOf& value_of) {
  using ById = std::map<std::string, const Item*>;
  std::vector<ById> all;  // baseline and arm of each pair in turn
  std::set<std::string> ids;
  for (const Pair& pair : pairs) {
    for (const EvaluationSummary* const one : {pair.baseline, pair.arm}) {
      ById& own = all.emplace_back();
      for (const Item& item : one->*items) {
        own.emplace(item.id, &item);
        ids.insert(item.id);
      }
    }
  }
  Units out;
  out.baseline.resize(pairs.size());
  out.arm.resize(pairs.size());
  for (const Item& item : pairs.front().baseline->*items) {
    const bool is_common = std::ranges::all_of(all, [&](const ById& one) {
      const auto found = one.find(item.id);
      return found != one.end() && std::invoke(key_of, *found->second) == std::invoke(key_of, item);
    });
    if (!is_common) continue;
    out.targets.push_back(static_cast<double>(std::invoke(targets_of, item)));
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      out.baseline[i].push_back(value_of(*all[2 * i].at(item.id)));
      out.arm[i].push_back(value_of(*all[2 * i + 1].at(item.id)));
    }
  }
  out.left_out = static_cast<std::int64_t>(ids.size() - out.targets.size());
  return out;
}

// The dialogues of which all evaluations have generated equally many answers.
Units answer_units(const std::vector<Pair>& pairs, Measure measure) {
  return common_units(
      pairs, &EvaluationSummary::answers, &DialogueScores::answers, &DialogueScores::answers,
      [&](const DialogueScores& one) { return one.sums[answer_score_of(measure)]; });
}

Units sample_units(const std::vector<Pair>& pairs, Measure measure) {
  const bool is_loss = measure == Measure::kLoss;
  const auto count = [&](const Sample& s) { return is_loss ? s.sums.targets : s.sums.judged(); };
  return common_units(pairs, &EvaluationSummary::samples, &Sample::sha256, count,
                      [&](const Sample& one) {
                        return is_loss ? one.sums.nll : static_cast<double>(one.sums.correct);
                      });
}

// [lane][target] of one evaluation.
using Lanes = std::vector<std::vector<double>>;

Lanes values_of(const EvaluationSummary& evaluation, const std::vector<std::size_t>& lanes,
                Measure measure) {
  Lanes out;
  for (const std::size_t lane : lanes) {
    const LaneLosses& losses = evaluation.lanes[lane];
    if (measure == Measure::kLoss) {
      out.push_back(losses.nll);
    } else {
      out.emplace_back(losses.correct.begin(), losses.correct.end());
    }
  }
  return out;
}

// The lanes that all evaluations have with the same targets.
std::vector<std::size_t> common_lanes(const std::vector<Pair>& pairs) {
  const std::vector<Sample>& lanes = pairs.front().baseline->samples;
  std::vector<std::size_t> out;
  for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
    const auto has_lane = [&](const EvaluationSummary& evaluation) {
      return lane < evaluation.lanes.size() && evaluation.samples[lane].id == lanes[lane].id &&
             evaluation.samples[lane].sha256 == lanes[lane].sha256;
    };
    if (std::ranges::all_of(pairs, [&](const Pair& pair) {
          return has_lane(*pair.baseline) && has_lane(*pair.arm);
        })) {
      out.push_back(lane);
    }
  }
  return out;
}

// Blocks of the lanes, so long that the differences, means over the seeds, of neighbours are not
// correlated.
Units block_units(const std::vector<Pair>& pairs, Measure measure) {
  Units out;
  const std::vector<std::size_t> lanes = common_lanes(pairs);
  std::set<std::string> all;
  for (const Pair& pair : pairs) {
    for (const EvaluationSummary* const one : {pair.baseline, pair.arm}) {
      for (const Sample& lane : one->samples) all.insert(lane.id);
    }
  }
  out.left_out = static_cast<std::int64_t>(all.size() - lanes.size());
  if (lanes.empty()) return out;
  std::vector<Lanes> baseline;
  std::vector<Lanes> arm;
  Lanes differences;
  for (const Pair& pair : pairs) {
    baseline.push_back(values_of(*pair.baseline, lanes, measure));
    arm.push_back(values_of(*pair.arm, lanes, measure));
    differences.resize(lanes.size());
    for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
      std::vector<double>& row = differences[lane];
      row.resize(baseline.back()[lane].size());
      for (std::size_t i = 0; i < row.size(); ++i) {
        row[i] +=
            (arm.back()[lane][i] - baseline.back()[lane][i]) / static_cast<double>(pairs.size());
      }
    }
  }
  const stats::Blocks chosen = stats::choose_blocks(differences);
  out.block = static_cast<std::int64_t>(chosen.length);
  out.autocorrelation = chosen.autocorrelation;
  out.are_correlated = !chosen.is_uncorrelated;
  out.warnings = chosen.warnings;
  out.targets = stats::block_targets(chosen.blocks);
  for (std::size_t seed = 0; seed < pairs.size(); ++seed) {
    out.baseline.push_back(stats::block_sums(baseline[seed], chosen.blocks));
    out.arm.push_back(stats::block_sums(arm[seed], chosen.blocks));
  }
  return out;
}

// Fills the numbers of a difference from its units. With a margin above 0 of losses its p value too.
stats::PairedResult compare_units(const Units& units, std::size_t family_size, double margin,
                                  const std::optional<Looks>& looks, Difference& out) {
  stats::PairedDifferences paired{.sums = {}, .targets = units.targets};
  double targets = 0.0;
  for (const double count : units.targets) targets += count;
  out.baseline_mean = 0.0;
  out.arm_mean = 0.0;
  if (out.measure == Measure::kLoss) out.perplexity = 0.0;
  const auto seeds = static_cast<double>(units.baseline.size());
  for (std::size_t seed = 0; seed < units.baseline.size(); ++seed) {
    std::vector<double>& sums = paired.sums.emplace_back();
    double nll = 0.0;
    for (std::size_t i = 0; i < units.targets.size(); ++i) {
      sums.push_back(units.arm[seed][i] - units.baseline[seed][i]);
      out.baseline_mean += units.baseline[seed][i] / targets / seeds;
      out.arm_mean += units.arm[seed][i] / targets / seeds;
      nll += units.arm[seed][i];
    }
    out.perplexity += std::exp(nll / targets) / seeds;
  }
  const stats::PairedOptions options{.arms = family_size};
  stats::PairedResult result = looks ? stats::compare_at_look(paired, looks->plan, options)
                                     : stats::compare_paired(paired, options);
  if (margin > 0.0 && out.measure == Measure::kLoss) {
    const double p = stats::margin_p(paired, margin);
    out.margin = {.margin = margin,
                  .p = looks ? stats::repeated_one_sided_p(looks->plan, out.seeds.size(), p) : p};
  }
  out.units = static_cast<std::int64_t>(units.targets.size());
  out.targets = static_cast<std::int64_t>(targets);
  out.block = units.block;
  if (units.block > 0) {
    const auto [shortest, longest] = std::ranges::minmax(units.targets);
    out.longest_block = static_cast<std::int64_t>(longest);
    out.are_blocks_equal = shortest == longest;
  }
  out.mean = result.mean;
  out.low = result.low;
  out.high = result.high;
  out.p = result.p;
  out.family_size = family_size;
  out.effect = result.effect_size;
  out.detectable = result.smallest_detectable;
  // No accuracies or scores differ by more than 1.
  if (out.measure != Measure::kLoss && out.detectable > 1.0) {
    out.detectable = std::numeric_limits<double>::infinity();
  }
  out.statistics = result;
  out.block_autocorrelation = units.autocorrelation;
  out.are_blocks_correlated = units.are_correlated;
  out.reasons = units.warnings;
  out.reasons.insert(out.reasons.end(), result.warnings.begin(), result.warnings.end());
  if (units.left_out > 0) {
    out.reasons.push_back(str(units.left_out, units.block > 0 ? " lane" : " " + out.unit,
                              units.left_out == 1 ? " was" : "s were",
                              " left out, which not every evaluation has with equal targets"));
  }
  return result;
}

// Why so many seeds are not compared where seeds are added; "" = they are.
std::string why_no_look(const Comparison& comparison, std::size_t seeds) {
  if (!comparison.looks) return "";
  const stats::LookPlan& plan = comparison.looks->plan;
  const std::string has = str(seeds, seeds == 1 ? " seed" : " seeds");
  if (seeds < plan.first_look()) return str(has, ": the first look is at ", plan.first_look());
  if (seeds > plan.max_seeds())
    return str(has, ": the looks were planned for at most ", plan.max_seeds());
  return "";
}

// What is compared of an arm; without targets `units` are missing and the difference says why.
Difference prepare_pair(const Comparison& comparison, ArmPair arms, const std::string& split,
                        Measure measure, std::size_t seeds, Units& units) {
  const std::vector<Pair> pairs = pairs_of(comparison, arms, split, seeds);
  Difference out{.arm = arms.arm, .baseline = arms.baseline, .split = split, .measure = measure};
  if (pairs.empty()) {
    out.reasons = {"no seed of which both arms have stored losses"};
    return out;
  }
  if (std::string reason = why_no_look(comparison, pairs.size()); !reason.empty()) {
    out.reasons = {std::move(reason)};
    return out;
  }
  const std::string unit = is_answer_score(measure) ? "dialogue" : pairs.front().baseline->unit;
  const bool are_equal =
      is_answer_score(measure) || std::ranges::all_of(pairs, [&](const Pair& pair) {
        return pair.baseline->unit == unit && pair.arm->unit == unit;
      });
  if (!are_equal) {
    out.reasons = {"the evaluations were cut into different units"};
    return out;
  }
  for (const Pair& pair : pairs) out.seeds.push_back(pair.seed);
  const bool has_lanes = unit == "lane";
  out.unit = has_lanes ? "block" : unit;
  units = is_answer_score(measure) ? answer_units(pairs, measure)
          : has_lanes              ? block_units(pairs, measure)
                                   : sample_units(pairs, measure);
  out.has_few_documents =
      has_lanes && pairs.front().baseline->record.value("unit", "") == "document";
  if (out.has_few_documents) {
    units.warnings.emplace_back(
        "fewer than 10 documents: blocks of the lanes are the units, and the result is about these "
        "documents alone");
  }
  if (units.targets.empty()) {
    out.reasons = {is_answer_score(measure)
                       ? "the arms have no dialogue in common with equally many generated answers"
                       : "the evaluations have no " + unit + " in common with equal targets"};
  }
  return out;
}

Verdict word_for(const stats::PairedResult& result, double adjusted_p, Measure measure) {
  switch (stats::verdict(result, adjusted_p)) {
    case stats::Verdict::kLower:
      return measure == Measure::kLoss ? Verdict::kBetter : Verdict::kWorse;
    case stats::Verdict::kHigher:
      return measure == Measure::kLoss ? Verdict::kWorse : Verdict::kBetter;
    case stats::Verdict::kNoDifferenceShown:
      break;
  }
  return Verdict::kNoDifference;
}

// Corrects the p values against the margin, and says which differences lie below it.
void judge_margins(const std::vector<stats::PairedResult>& results,
                   const std::vector<Difference*>& family) {
  std::vector<double> p_values;
  for (const Difference* const one : family) {
    if (one->margin) p_values.push_back(one->margin->p);
  }
  if (p_values.empty()) return;
  const std::vector<double> adjusted = stats::holm(p_values);
  for (std::size_t i = 0; i < family.size(); ++i) {
    MarginTest& test = *family[i]->margin;
    test.adjusted_p = adjusted[i];
    test.is_shown = stats::is_below_margin(results[i], test.margin, adjusted[i]);
  }
}

constexpr std::size_t kAllSeeds = std::numeric_limits<std::size_t>::max();

// A family: pairs of arms on one split by one measure, with p values corrected over those that have
// one.
std::vector<Difference> compare_family(const Comparison& comparison,
                                       const std::vector<ArmPair>& family, const std::string& split,
                                       Measure measure, double margin,
                                       std::size_t seeds = kAllSeeds) {
  std::vector<Difference> out;
  std::vector<std::pair<std::size_t, Units>> known;  // place in `out`
  for (const ArmPair& arms : family) {
    Units units;
    out.push_back(prepare_pair(comparison, arms, split, measure, seeds, units));
    if (!units.targets.empty()) known.emplace_back(out.size() - 1, std::move(units));
  }
  std::vector<stats::PairedResult> results;
  std::vector<double> p_values;
  for (const auto& [place, units] : known) {
    results.push_back(compare_units(units, known.size(), margin, comparison.looks, out[place]));
    p_values.push_back(results.back().p);
  }
  const std::vector<double> adjusted = stats::holm(p_values);
  std::vector<Difference*> compared;
  for (std::size_t i = 0; i < known.size(); ++i) {
    Difference& one = out[known[i].first];
    one.adjusted_p = adjusted[i];
    one.verdict = word_for(results[i], adjusted[i], measure);
    compared.push_back(&one);
  }
  judge_margins(results, compared);
  for (Difference& one : out) {
    const Arm& baseline = comparison.arms[one.baseline];
    one.faults = faults_of(comparison.arms[one.arm]);
    if (const std::string faults = faults_of(baseline); one.faults.empty() && !faults.empty())
      one.faults = str(baseline.name, ": ", faults);
    std::string other = other_settings_words(comparison.arms[one.arm], baseline, split);
    if (!other.empty()) one.reasons.push_back(std::move(other));
    if (!one.faults.empty() && one.verdict != Verdict::kUnknown) {
      one.verdict = Verdict::kFaulty;
      one.margin.reset();
    }
  }
  return out;
}

bool has_answers(const Comparison& comparison, const std::string& split) {
  return std::ranges::any_of(comparison.arms.front().runs, [&](const Run& run) {
    const EvaluationSummary* const found = run.find(split);
    return found != nullptr && !found->answers.empty();
  });
}

// Families for each split and measure, in turn.
std::vector<Difference> compare_families(const Comparison& comparison,
                                         const std::vector<std::vector<ArmPair>>& families,
                                         double margin) {
  std::vector<Difference> out;
  for (const std::string& split : comparison.splits) {
    for (const Measure measure :
         {Measure::kLoss, Measure::kAccuracy, Measure::kTokenF1, Measure::kRouge1Recall,
          Measure::kRouge1F, Measure::kRougeLRecall, Measure::kRougeLF, Measure::kMeteor}) {
      if (measure == Measure::kAccuracy && !is_generated(comparison)) continue;
      if (is_answer_score(measure) && !has_answers(comparison, split)) continue;
      for (const std::vector<ArmPair>& family : families) {
        for (Difference& one : compare_family(comparison, family, split, measure, margin))
          out.push_back(std::move(one));
      }
    }
  }
  return out;
}

// Every arm with its baseline: those of the first arm's kind, and the others.
std::vector<std::vector<ArmPair>> families_of(const Comparison& comparison) {
  std::vector<std::vector<ArmPair>> families(2);
  const bool is_first_tuned = !comparison.arms.front().variant_of.empty();
  for (std::size_t arm = 0; arm < comparison.arms.size(); ++arm) {
    const std::optional<std::size_t> baseline = baseline_of(comparison, arm);
    if (!baseline) continue;
    const bool is_tuned = !comparison.arms[arm].variant_of.empty();
    families[is_tuned == is_first_tuned ? 0 : 1].push_back({.baseline = *baseline, .arm = arm});
  }
  return families;
}

}  // namespace

std::vector<Difference> differences(const Comparison& comparison, double margin) {
  std::vector<Difference> out = compare_families(comparison, families_of(comparison), margin);
  for (Difference& one : out) {
    if (!comparison.tuning || comparison.arms[one.arm].variant_of.empty() ||
        one.verdict == Verdict::kUnknown)
      continue;
    if (one.split == scores::kChoiceSplit)
      one.reasons.emplace_back("values were chosen on this split: the test split counts");
    if (const std::string steps = early_choice(comparison, one.arm); !steps.empty())
      one.reasons.push_back("values were chosen after " + steps);
  }
  return out;
}

std::vector<Difference> look_differences(const Comparison& comparison, std::size_t seeds) {
  if (!comparison.looks) return {};
  return compare_family(comparison, families_of(comparison).front(), comparison.looks->split,
                        Measure::kLoss, /*margin=*/0.0, seeds);
}

std::vector<Difference> pair_differences(const Comparison& comparison) {
  std::vector<ArmPair> family;
  for (std::size_t baseline = 0; baseline < comparison.arms.size(); ++baseline) {
    for (std::size_t arm = baseline + 1; arm < comparison.arms.size(); ++arm)
      family.push_back({.baseline = baseline, .arm = arm});
  }
  return compare_families(comparison, {family}, /*margin=*/0.0);
}

}  // namespace mneme::report
