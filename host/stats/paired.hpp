// Paired comparison of an arm with the baseline: mean difference, interval, p value, effect size
// and the smallest detectable difference, from sums of loss over units that both arms were scored
// on.
//
// docs/statistics.md has the method with its formulas, sources and measured error rates.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace mneme::stats {

// What both arms were scored on. A unit is a document, a sequence of a generated task, or a block
// of a stream without documents (blocks.hpp); losses of different units are taken as independent.
struct PairedDifferences {
  // [S][J]: for each seed and unit the sum over the unit's targets of the arm's loss minus the
  // baseline's (nats). The units are the same for all seeds.
  std::vector<std::vector<double>> sums;
  // [J]: targets of each unit, above 0.
  std::vector<double> targets;
};

struct PairedOptions {
  double level = 0.95;  // of the interval; 1 - level is the level of the test
  double power = 0.8;   // at which the smallest detectable difference is stated
  int bootstrap_draws = 10000;
  int sign_flip_draws = 20000;  // used with more than `exact_units` units
  int exact_units = 15;         // most units for which all sign flips are tried, at most 24
  std::uint64_t seed = 1;       // of the draws: equal input and options give equal results
  // Arms whose p values Holm's correction adjusts (holm.hpp). The smallest detectable difference is
  // one that the strictest of its steps shows, at (1 - level) / arms; nothing else depends on it.
  std::size_t arms = 1;
};

// Estimated variance of the mean difference, in parts (nats^2).
struct VarianceParts {
  double seeds = 0;        // between the seeds' means, divided by S; 0 with one seed
  double units = 0;        // between the units' means over seeds, divided by J
  double interaction = 0;  // what `seeds` and `units` both contain: noise of unit x seed
};

struct PairedResult {
  std::size_t seeds = 0;
  std::size_t units = 0;
  double targets = 0;              // of all units
  std::vector<double> seed_means;  // [S] mean difference of each seed, nats a target
  double mean = 0;                 // mean of them: below 0 where the arm is better
  double low = 0;                  // interval of the mean difference; -inf and inf where the data
  double high = 0;                 //   cannot bound it (one unit)
  VarianceParts variance;
  double standard_error = 0;          // square root of the variance that the interval uses
  double seed_share = 0;              // share of the seeds' part in that variance
  double effective_units = 0;         // (sum n)^2 / sum n^2: J where all have equally many targets
  double p = 1;                       // two-sided; not corrected for several arms (holm.hpp)
  bool is_p_exact = false;            // all sign flips were tried
  double effect_size = 0;             // d_z: mean / (sqrt(J variance.units)), Cohen's d over units
  double smallest_detectable = 0;     // true difference (> 0) that this many seeds and units show
                                      //   with probability `power`; inf where none can be shown;
                                      //   NaN where all differences are 0, which bounds nothing
  bool covers_seeds = false;          // the interval holds for other seeds too (S > 1)
  std::vector<std::string> warnings;  // sentences for the reader of the result
};

// Compares an arm with the baseline. Deterministic; no state; one thread.
//
// Throws a run error where `differences` has no seed or unit, rows of unequal lengths, numbers
// that are not finite or targets that are not above 0, and a usage error for options out of range.
[[nodiscard]] PairedResult compare_paired(const PairedDifferences& differences,
                                          const PairedOptions& options = {});

// One-sided p value of the test that the true mean difference is `margin` or more: a small one says
// that the arm's loss is not higher than the baseline's by more than the margin. Half of the
// two-sided p value of the differences less the margin where their mean is below 0, else 1 less that
// half. Deterministic. Errors as compare_paired; a usage error for a margin that is not finite.
[[nodiscard]] double margin_p(const PairedDifferences& differences, double margin,
                              const PairedOptions& options = {});

// Whether a comparison shows that the mean difference is below `margin`: the interval lies below it,
// and the p value of margin_p, after Holm's correction over the arms, is at most 1 - level.
[[nodiscard]] bool is_below_margin(const PairedResult& result, double margin, double adjusted_p,
                                   double level = 0.95);

// What a comparison says about losses. "No difference shown" does not say that there is none.
enum class Verdict { kLower, kHigher, kNoDifferenceShown };

// kLower or kHigher where both the interval excludes 0 and the p value, after Holm's correction
// over the arms, is at most 1 - level; where only one of the two holds, no difference is shown.
[[nodiscard]] Verdict verdict(const PairedResult& result, double adjusted_p, double level = 0.95);

}  // namespace mneme::stats
