#include "host/stats/paired.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <utility>

#include "host/base/error.hpp"
#include "host/base/text.hpp"
#include "host/stats/estimate.hpp"
#include "host/stats/resample.hpp"

namespace mneme::stats {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr std::size_t kFewUnits = 10;
// 1 - 0.95 is a little more than 0.05; a p value that is computed as 0.05 is within.
constexpr double kRounding = 1e-12;

void check_options(const PairedOptions& options) {
  const auto need = [](bool holds, std::string_view name, const char* expected, double got) {
    if (!holds) {
      throw_usage({.where = str("option ", name, " of a paired comparison"),
                   .failed = "value out of range",
                   .expected = expected,
                   .got = str(got)});
    }
  };
  need(options.level > 0.5 && options.level < 1, "level", "0.5 < level < 1", options.level);
  need(options.power > 1 - options.level && options.power < 1, "power", "1 - level < power < 1",
       options.power);
  need(options.bootstrap_draws >= 100, "bootstrap_draws", "at least 100", options.bootstrap_draws);
  need(options.sign_flip_draws >= 100, "sign_flip_draws", "at least 100", options.sign_flip_draws);
  need(options.arms >= 1, "arms", "at least 1", 0.0);
  need(options.exact_units >= 0 && options.exact_units <= 24, "exact_units", "0 to 24",
       options.exact_units);
}

void check_differences(const PairedDifferences& differences) {
  const std::size_t units = differences.targets.size();
  if (differences.sums.empty() || units == 0) {
    throw_run({.where = "paired comparison",
               .failed = "nothing to compare",
               .expected = "at least one seed and one unit",
               .got = str(differences.sums.size(), " seeds, ", units, " units"),
               .hint = "compare evaluations that have samples in common"});
  }
  for (std::size_t j = 0; j < units; ++j) {
    if (!std::isfinite(differences.targets[j]) || differences.targets[j] <= 0) {
      throw_run({.where = str("paired comparison, unit ", j),
                 .failed = "number of targets",
                 .expected = "above 0",
                 .got = str(differences.targets[j]),
                 .hint = "leave out units without targets"});
    }
  }
  for (std::size_t s = 0; s < differences.sums.size(); ++s) {
    const std::vector<double>& row = differences.sums[s];
    if (row.size() != units) {
      throw_run({.where = str("paired comparison, seed number ", s + 1),
                 .failed = "number of differences",
                 .expected = str(units, ", one a unit"),
                 .got = str(row.size())});
    }
    for (std::size_t j = 0; j < units; ++j) {
      if (!std::isfinite(row[j])) {
        throw_run({.where = str("paired comparison, seed number ", s + 1, ", unit ", j),
                   .failed = "difference of losses",
                   .expected = "a finite number",
                   .got = str(row[j]),
                   .hint = "leave out the seed, whose training diverged"});
      }
    }
  }
}

// The level at which the sign-flip test just rejects. With several seeds the test at level a
// shrinks the data's |t| by the ratio of the interval's half width to that of units alone, so that
// it agrees with the interval. The ratio grows as a falls, so there is one such level.
double p_value(const Estimate& estimate, const SignFlips& flips) {
  if (estimate.seed_degrees == 0 || estimate.standard_error() == 0) {
    return flips.tail(flips.observed);
  }
  const double mean = std::abs(estimate.mean);
  if (mean == 0) return 1;
  const auto tail_at = [&](double level) {
    return flips.tail(mean * estimate.unit_quantile(level) / estimate.half_width(level));
  };
  double low = 1e-12;
  double high = 1;
  double tail_high = 1;
  for (int i = 0; i < 50 && high - low > 1e-10 * high; ++i) {
    const double level = std::sqrt(low * high);
    const double tail = tail_at(level);
    if (tail <= level) {
      high = level;
      tail_high = tail;
    } else {
      low = level;
    }
  }
  // The level where the flips' share is constant is that share itself.
  return high - tail_high < 1e-9 * high ? tail_high : high;
}

// Distances from the mean to the ends of its interval. Bootstrap-t replaces the t quantile of the
// units' part on the side where its own is larger, that is where a skewed distribution of the
// units' differences makes the t interval too short; it never shortens the interval.
struct Ends {
  double below = 0;
  double above = 0;
};

Ends interval_ends(const Estimate& estimate, const PairedDifferences& differences,
                   const PairedOptions& options) {
  const double outside = 1 - options.level;
  const double quantile = estimate.unit_quantile(outside);
  const double half = estimate.half_width(outside);
  if (estimate.variance.units == 0) return {half, half};
  const Tails tails = bootstrap_tails(differences.sums, differences.targets, outside / 2,
                                      options.bootstrap_draws, options.seed);
  const double unit_share = 1 - estimate.seed_share();
  const auto lengthened = [&](double tail) {
    return half * (1 + unit_share * std::max(0.0, tail / quantile - 1));
  };
  return {lengthened(tails.upper), lengthened(-tails.lower)};
}

double smallest_detectable(const Estimate& estimate, const SignFlips& flips, const Ends& ends,
                           const PairedOptions& options) {
  const double outside = 1 - options.level;
  const double of_arm = outside / static_cast<double>(options.arms);
  if (flips.smallest_tail() > of_arm) return kInfinity;
  if (estimate.standard_error() == 0) return 0;
  return detectable(estimate, 0.5 * (ends.below + ends.above) / estimate.half_width(outside),
                    of_arm, options.power);
}

void add_warnings(PairedResult& result, std::size_t arms) {
  const auto add = [&](std::string text) { result.warnings.push_back(std::move(text)); };
  if (result.seeds == 1) {
    add("one seed: interval and p hold for these trained models alone; train more seeds to learn "
        "whether the difference is the memory's");
  }
  if (result.units == 1) {
    add("one unit (document, sequence or block): nothing can be said about other texts");
  } else if (result.units < 6 || result.smallest_detectable == kInfinity) {
    add(str("only ", result.units,
            " units (documents, sequences or blocks): no sign-flip test of "
            "so few reaches p = 0.05",
            arms > 1 ? str(" after Holm's correction over ", arms, " arms") : std::string(),
            ", so no difference can be shown"));
  } else if (result.units < kFewUnits) {
    add(str("only ", result.units,
            " units (documents, sequences or blocks): interval and p are "
            "rough below ",
            kFewUnits));
  } else if (result.effective_units < kFewUnits) {
    add(str("a few of the ", result.units, " units hold most targets: they count as about ",
            format_number(result.effective_units, 0), " equal ones, and interval and p are rough"));
  }
}

}  // namespace

PairedResult compare_paired(const PairedDifferences& differences, const PairedOptions& options) {
  check_options(options);
  check_differences(differences);
  Estimate estimate = estimate_of(differences);
  PairedResult result;
  result.seeds = differences.sums.size();
  result.units = differences.targets.size();
  for (const double n : differences.targets) result.targets += n;
  result.mean = estimate.mean;
  result.variance = estimate.variance;
  result.standard_error = estimate.standard_error();
  result.seed_share = estimate.seed_share();
  double squared_targets = 0;
  for (const double n : differences.targets) squared_targets += n * n;
  result.effective_units = result.targets * result.targets / squared_targets;
  result.covers_seeds = result.seeds > 1;
  const bool is_zero = std::ranges::all_of(differences.sums, [](const std::vector<double>& row) {
    return std::ranges::all_of(row, [](double value) { return value == 0; });
  });
  if (is_zero) {
    result.is_p_exact = true;
    result.smallest_detectable = std::numeric_limits<double>::quiet_NaN();
    result.warnings.emplace_back("all differences are 0: the arms gave equal numbers");
  } else if (result.units == 1) {
    result.low = -kInfinity;
    result.high = kInfinity;
    result.smallest_detectable = kInfinity;
  } else {
    const SignFlips flips = sign_flips(estimate.unit_differences, differences.targets,
                                       options.exact_units, options.sign_flip_draws, options.seed);
    result.p = p_value(estimate, flips);
    result.is_p_exact = flips.is_exact;
    const Ends ends = interval_ends(estimate, differences, options);
    result.low = result.mean - ends.below;
    result.high = result.mean + ends.above;
    const double deviation = std::sqrt(static_cast<double>(result.units) * estimate.variance.units);
    result.effect_size = estimate.mean == 0 ? 0 : estimate.mean / deviation;
    result.smallest_detectable = smallest_detectable(estimate, flips, ends, options);
  }
  add_warnings(result, options.arms);
  result.seed_means = std::move(estimate.seed_means);
  return result;
}

double margin_p(const PairedDifferences& differences, double margin, const PairedOptions& options) {
  check_options(options);
  check_differences(differences);
  if (!std::isfinite(margin)) {
    throw_usage({.where = "margin of a paired comparison",
                 .failed = "value out of range",
                 .expected = "a finite number",
                 .got = str(margin)});
  }
  if (differences.targets.size() == 1) return 1;
  PairedDifferences beyond = differences;
  for (std::vector<double>& row : beyond.sums) {
    for (std::size_t j = 0; j < row.size(); ++j) row[j] -= margin * differences.targets[j];
  }
  const Estimate estimate = estimate_of(beyond);
  const double p =
      p_value(estimate, sign_flips(estimate.unit_differences, beyond.targets, options.exact_units,
                                   options.sign_flip_draws, options.seed));
  return estimate.mean < 0 ? p / 2 : 1 - p / 2;
}

bool is_below_margin(const PairedResult& result, double margin, double adjusted_p, double level) {
  return adjusted_p <= 1 - level + kRounding && result.high < margin;
}

Verdict verdict(const PairedResult& result, double adjusted_p, double level) {
  if (!(adjusted_p <= 1 - level + kRounding)) return Verdict::kNoDifferenceShown;
  if (result.high < 0) return Verdict::kLower;
  if (result.low > 0) return Verdict::kHigher;
  return Verdict::kNoDifferenceShown;
}

}  // namespace mneme::stats
