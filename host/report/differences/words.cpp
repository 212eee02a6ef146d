// What differences say in words.
#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "host/base/text.hpp"
#include "host/report/differences/differences.hpp"
#include "host/report/differences/soundness.hpp"

namespace mneme::report {

std::string name_of(Measure measure) {
  if (measure == Measure::kLoss) return "loss";
  if (measure == Measure::kAccuracy) return "accuracy";
  return std::string(kAnswerScores[answer_score_of(measure)]);
}

std::string verdict_word(const Difference& difference) {
  if (difference.verdict == Verdict::kFaulty) return difference.faults;
  constexpr std::array kWords = {"better", "worse", "no difference shown", "unknown"};
  return kWords.at(static_cast<std::size_t>(difference.verdict));
}

std::string positive_text(double value, int digits) {
  const double least = std::pow(10.0, -digits);
  return value < least ? "<" + format_number(least, digits) : format_number(value, digits);
}

std::string units_text(const Difference& difference) {
  std::string text = str(difference.units, ' ', difference.unit, difference.units == 1 ? "" : "s");
  if (difference.block == 0) return text;
  text += difference.are_blocks_equal ? str(" of ", difference.block)
                                      : str(" of up to ", difference.longest_block);
  return text + " targets";
}

std::string margin_text(double margin) {
  constexpr int kMostDigits = 12;
  for (int digits = 1; digits <= kMostDigits; ++digits) {
    const std::string text = format_number(margin, digits);
    if (std::stod(text) == margin) return text;
  }
  return format_exact(margin);
}

std::string margin_words(const MarginTest& test) {
  const std::string words = "not worse by more than " + margin_text(test.margin);
  return test.is_shown ? words : "not shown: " + words;
}

std::string extent_words(const Difference& one) {
  return str(units_text(one), ", ", one.seeds.size(), one.seeds.size() == 1 ? " seed" : " seeds");
}

std::string signed_number(double value, int digits) {
  constexpr int kMostDigits = 12;  // below it is rounding
  const double size = std::abs(value);
  if (size > 0.0 && size < 0.5 * std::pow(10.0, -digits)) {
    const int needed = 1 - static_cast<int>(std::floor(std::log10(size)));
    if (needed <= kMostDigits) digits = needed;
  }
  return (value > 0.0 ? "+" : "") + format_number(value, digits);
}

namespace {

// "a, b (valid loss); a (test loss)"
std::string rows_text(const Comparison& comparison, const std::vector<const Difference*>& rows,
                      bool are_pairs) {
  std::vector<std::pair<std::string, std::vector<std::string>>> groups;  // by split and measure
  for (const Difference* const one : rows) {
    const std::string key = str(one->split, ' ', name_of(one->measure));
    if (groups.empty() || groups.back().first != key) groups.emplace_back(key, 0);
    groups.back().second.push_back(
        comparison.arms[one->arm].name +
        (are_pairs ? " against " + comparison.arms[one->baseline].name : std::string()));
  }
  std::vector<std::string> out;
  for (const auto& [key, arms] : groups) out.push_back(str(join(arms, ", "), " (", key, ')'));
  return join(out, "; ");
}

}  // namespace

std::vector<std::string> reason_notes(const Comparison& comparison,
                                      const std::vector<Difference>& all, bool are_pairs) {
  std::vector<std::pair<std::string, std::vector<const Difference*>>> reasons;
  for (const Difference& one : all) {
    for (const std::string& reason : one.reasons) {
      auto found = std::ranges::find(reasons, reason, &decltype(reasons)::value_type::first);
      if (found == reasons.end()) found = reasons.insert(reasons.end(), {reason, {}});
      found->second.push_back(&one);
    }
  }
  std::vector<std::string> out;
  for (const auto& [reason, rows] : reasons) {
    const bool are_all = rows.size() > 1 && rows.size() == all.size();
    out.push_back(str(are_all ? "all rows" : rows_text(comparison, rows, are_pairs), ": ", reason));
  }
  return out;
}

std::string blocks_note(const std::vector<Difference>& all) {
  std::size_t blocks = 0, few = 0, correlated = 0;
  for (const Difference& one : all) {
    if (one.block == 0) continue;
    ++blocks;
    few += one.has_few_documents ? 1 : 0;
    correlated += one.are_blocks_correlated ? 1 : 0;
  }
  if (blocks == 0) return "";
  std::string text = few == 0        ? "The data have no documents: the units are blocks"
                     : few == blocks ? "The data have fewer than 10 documents: the units are blocks"
                                     : "Where there are no or fewer than 10 documents, units are "
                                       "blocks";
  if (correlated == blocks)
    return text + ", the longest that could be tried; neighbouring ones are still correlated.";
  text += " so long that the differences of neighbouring blocks are not correlated";
  return text + (correlated > 0 ? ", unless a note says otherwise." : ".");
}

std::string correlation_words(const Difference& difference) {
  if (!difference.are_blocks_correlated) return "";
  return str("Differences are correlated over more than ",
             grouped_number(static_cast<double>(difference.block)),
             " targets, the longest blocks that could be tried: the interval is too narrow and p "
             "too small.");
}

std::string correlation_caption(const Comparison& comparison,
                                const std::vector<const Difference*>& all) {
  std::vector<std::pair<std::string, std::vector<std::string>>> said;
  for (const Difference* const one : all) {
    const std::string words = correlation_words(*one);
    if (words.empty()) continue;
    auto found = std::ranges::find(said, words, &decltype(said)::value_type::first);
    if (found == said.end()) found = said.insert(said.end(), {words, {}});
    found->second.push_back(comparison.arms[one->arm].name);
  }
  std::string out;
  for (const auto& [words, arms] : said) out += str(' ', join(arms, ", "), ": ", words);
  return out;
}

namespace {

std::string percent_text(double share) { return format_number(100.0 * share, 1) + " %"; }

// "p < 0.0001", "p = 0.0123"
std::string p_words(double p) {
  const std::string text = positive_text(p);
  return text.starts_with('<') ? "p < " + text.substr(1) : "p = " + text;
}

// "after Holm's correction over 3 arms"; "" of one arm. Between other arms than the first it is one
// over pairs.
std::string correction_words(const Difference& one) {
  return one.family_size > 1 ? str(" after Holm's correction over ", one.family_size,
                                   one.baseline == 0 ? " arms" : " pairs")
                             : std::string();
}

// "(95 % interval -0.02 to +0.01, p = 0.3 after Holm's correction over 3 arms; 40 documents, 2
// seeds)"
std::string evidence(const Difference& one) {
  return str("(95 % interval ", signed_number(one.low), " to ", signed_number(one.high), ", ",
             p_words(one.adjusted_p), correction_words(one), "; ", extent_words(one), ")");
}

// The change of perplexity of a text's loss; "" of other measures.
std::string perplexity_words(const Comparison& comparison, const Difference& one) {
  if (one.measure != Measure::kLoss || is_generated(comparison)) return "";
  const double ratio = std::exp(one.mean);
  return str(" Its perplexity is ", percent_text(std::abs(1.0 - ratio)),
             ratio < 1.0 ? " lower." : " higher.");
}

// What could have been found where no difference is shown.
std::string detectable_words(const Comparison& comparison, const Difference& one) {
  if (!std::isfinite(one.detectable)) {
    // An accuracy's, above 1.
    if (one.statistics && std::isfinite(one.statistics->smallest_detectable)) {
      return " Not even a true difference of 1 would have been found in 80 % of such experiments.";
    }
    return str(" No difference, however large, could have been shown", correction_words(one),
               " with ", units_text(one), '.');
  }
  const bool is_loss = one.measure == Measure::kLoss;
  std::string text = " A true difference of ";
  text += one.detectable < 0.00005 ? "less than 0.0001" : format_number(one.detectable, 4);
  if (is_loss) text += " nats a token";
  if (is_loss && !is_generated(comparison)) {
    text += str(" (", percent_text(std::expm1(one.detectable)), " of the perplexity)");
  }
  return text + str(" would have been found ", comparison.looks ? "at this look " : "",
                    "in 80 % of such experiments.");
}

std::string no_difference(const Comparison& comparison, const Difference& one) {
  const std::string& arm = comparison.arms[one.arm].name;
  const std::string& baseline = comparison.arms[one.baseline].name;
  const std::string what = name_of(one.measure);
  if (std::isnan(one.detectable)) {
    const std::string equal = one.measure == Measure::kLoss       ? "losses"
                              : one.measure == Measure::kAccuracy ? "accuracies"
                                                                  : what;
    return str(arm, " and ", baseline, " have equal ", equal, " on ", one.split, ", in every ",
               one.unit, ": ", extent_words(one), '.');
  }
  return str("No difference in ", what, " is shown between ", arm, " and ", baseline, " on ",
             one.split, ": ", signed_number(one.mean),
             one.measure == Measure::kLoss ? " nats a token " : " ", evidence(one), '.',
             detectable_words(comparison, one));
}

// Which of the two arms was still getting better by more than a tenth of the difference.
std::string convergence_words(const Comparison& comparison, const Difference& one) {
  constexpr double kShare = 0.1;
  if (one.measure != Measure::kLoss) return "";
  std::vector<std::string> parts;
  for (const std::size_t i : {one.arm, one.baseline}) {
    const double fall = last_fall(comparison.arms[i]);
    if (!(fall > kShare * std::abs(one.mean))) continue;
    parts.push_back(str(comparison.arms[i].name, " by ", format_number(fall, 4)));
  }
  if (parts.empty()) return "";
  return str(
      " The training had not converged: over its last tenth the loss on held-out data still "
      "fell, of ",
      join(parts, ", of "),
      " nats a token, more than a tenth of the "
      "difference: longer trainings may differ otherwise.");
}

// " It is not worse by more than the margin of 0.005 nats a token (one-sided p = 0.003).", or that
// this is not shown; "" without a margin.
std::string margin_sentence(const Comparison& comparison, const Difference& one) {
  if (!one.margin) return "";
  const std::string& arm = comparison.arms[one.arm].name;
  const std::string margin = str("not worse by more than the margin of ",
                                 margin_text(one.margin->margin), " nats a token");
  const std::string evidence =
      str(" (one-sided ", p_words(one.margin->adjusted_p), correction_words(one),
          ", interval up to ", signed_number(one.high), ").");
  return one.margin->is_shown ? str(' ', arm, " is ", margin, evidence)
                              : str(" That ", arm, " is ", margin, " is not shown", evidence);
}

std::string shown_difference(const Comparison& comparison, const Difference& one) {
  return str(comparison.arms[one.arm].name, " has a ", one.mean < 0.0 ? "lower " : "higher ",
             name_of(one.measure), " than ", comparison.arms[one.baseline].name, " on ", one.split,
             ": ", signed_number(one.mean), one.measure == Measure::kLoss ? " nats a token " : " ",
             evidence(one), '.', perplexity_words(comparison, one),
             convergence_words(comparison, one));
}

}  // namespace

std::string sentence(const Comparison& comparison, const Difference& one, bool says_seed) {
  if (one.verdict == Verdict::kUnknown) {
    return str(comparison.arms[one.arm].name, " is not compared with ",
               comparison.arms[one.baseline].name, " on ", one.split, ": ", one.reason(), '.');
  }
  if (one.verdict == Verdict::kFaulty) {
    return str("The difference of ", comparison.arms[one.arm].name, " to ",
               comparison.arms[one.baseline].name, " in ", name_of(one.measure), " on ", one.split,
               ", ", signed_number(one.mean), ", says nothing of the memory: ", one.faults, '.');
  }
  const std::string correlation = correlation_words(one);
  const std::string other =
      other_settings_words(comparison.arms[one.arm], comparison.arms[one.baseline], one.split);
  return str(one.verdict == Verdict::kNoDifference ? no_difference(comparison, one)
                                                   : shown_difference(comparison, one),
             margin_sentence(comparison, one), correlation.empty() ? "" : " " + correlation,
             other.empty() ? "" : " Mind that " + other + '.',
             says_seed && one.seeds.size() == 1
                 ? " One seed: this holds for these two trained models only."
                 : "");
}

}  // namespace mneme::report
