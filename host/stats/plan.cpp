#include "host/stats/plan.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "host/base/error.hpp"
#include "host/base/text.hpp"
#include "host/stats/distributions.hpp"

namespace mneme::stats {
namespace {

// How finely distributions of variances are represented: docs/statistics.md, "Planning".
constexpr int kOpen = 20;     // truths that a pilot leaves open
constexpr int kRatios = 25;   // estimates of the planned experiment
constexpr int kStride = 7;    // no divisor of either: pairs quantiles of seeds and of units
constexpr double kTails = 2;  // units' variances rest on so many times fewer degrees of freedom

// The chi squared of small variances: its first part counts as its border, as a pilot of two seeds
// would else allow for a variance 1,000 times its own.
double least_place(double seed_degrees) { return seed_degrees == 1 ? 0.2 : 0.05; }

// The place of the i-th of `count` pairs among the quantiles of units.
std::size_t paired_place(int i, int count) { return static_cast<std::size_t>(kStride * i % count); }

void check_pilot(const PairedResult& pilot) {
  const auto refuse = [](const char* failed, const char* expected, const std::string& got,
                         const char* hint) {
    throw_run({.where = "pilot", .failed = failed, .expected = expected, .got = got, .hint = hint});
  };
  if (pilot.seeds < 2) {
    refuse("says nothing of how trainings differ", "two seeds or more", "one",
           "train another seed of each arm");
  }
  if (pilot.units < 2) {
    refuse("says nothing of how texts differ", "two documents, sequences or blocks, or more", "one",
           "evaluate on more text");
  }
  if (!(pilot.variance.seeds > 0 || pilot.variance.units > 0)) {
    refuse("says nothing of other experiments", "differences that vary",
           "equal ones in every unit and seed", "compare other arms");
  }
}

// The least of `low` to `high` for which `holds`, which stays true once it is; none if it is not at
// `high`.
template <typename Holds>
std::optional<std::size_t> least_that(std::size_t low, std::size_t high, const Holds& holds) {
  if (!holds(high)) return std::nullopt;
  while (low < high) {
    const std::size_t middle = low + (high - low) / 2;
    if (holds(middle)) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return high;
}

double mean_power(const std::vector<IntervalPower>& powers, double difference) {
  double sum = 0;
  for (const IntervalPower& one : powers) sum += one.at(difference);
  return sum / static_cast<double>(powers.size());
}

}  // namespace

PilotPlan::PilotPlan(const PairedResult& pilot, const PairedOptions& options) : options_(options) {
  check_pilot(pilot);
  const auto seeds = static_cast<double>(pilot.seeds);
  pilot_units_ = static_cast<double>(pilot.units);
  evenness_ = pilot.effective_units / pilot_units_;
  const VarianceParts& of = pilot.variance;
  const auto between = [&](double variance) {
    return seeds * std::max(variance - of.interaction, 0.0);
  };
  components_ = {.seeds = between(of.seeds),
                 .units = pilot_units_ * std::max(of.units - of.interaction, 0.0),
                 .noise = seeds * pilot_units_ * of.interaction};
  const std::vector<double> units_ratios = variance_ratios(units_degrees(pilot_units_), kOpen);
  // An estimate over its true value is chi squared over its degrees of freedom; turned around, the
  // true values that it leaves open.
  for (int i = 0; i < kOpen; ++i) {
    const double place = std::max((i + 0.5) / kOpen, least_place(seeds - 1));
    open_.push_back(
        {.seeds = between(of.seeds * (seeds - 1) / chi_squared_quantile(place, seeds - 1)),
         .units = components_.units / units_ratios[paired_place(i, kOpen)],
         .noise = components_.noise});
  }
  Estimate estimate;
  estimate.variance = of;
  estimate.unit_degrees = pilot_units_ - 1;
  estimate.seed_degrees = seeds - 1;
  const double half = estimate.half_width(1 - options.level);
  const double units_share = 1 - estimate.seed_share();
  if (units_share > 0) {
    lengthening_ = std::max((pilot.high - pilot.mean) / half - 1, 0.0) / units_share;
  }
}

double PilotPlan::level() const {
  return (1 - options_.level) / static_cast<double>(options_.arms);
}

bool PilotPlan::can_show(std::size_t units) const {
  const double flips = units <= static_cast<std::size_t>(options_.exact_units)
                           ? std::exp2(static_cast<double>(units) - 1)
                           : 1.0 + options_.sign_flip_draws;
  return 1 / flips <= level();
}

// The degrees of freedom of a variance between so many units of the pilot's lengths. Units whose
// differences have long tails, as losses have, tell less of their variance.
double PilotPlan::units_degrees(double units) const {
  return std::max(units * evenness_ - 1, 1.0) / kTails;
}

std::vector<IntervalPower> PilotPlan::powers(std::size_t seeds, std::size_t units) const {
  const auto s = static_cast<double>(seeds);
  const auto j = static_cast<double>(units);
  const std::vector<double> of_seeds = variance_ratios(s - 1, kRatios);
  const std::vector<double> of_units = variance_ratios(units_degrees(j), kRatios);
  std::vector<EstimateRatios> ratios;
  for (int i = 0; i < kRatios; ++i) {
    ratios.push_back({.seeds = of_seeds[static_cast<std::size_t>(i)],
                      .units = of_units[paired_place(i, kRatios)]});
  }
  Estimate truth;
  truth.unit_degrees = j - 1;
  truth.seed_degrees = s - 1;
  truth.variance.interaction = components_.noise / (s * j);
  // Sign flips of a few long units reach the level later than the t quantile of all does.
  const double flips =
      t_quantile(1 - level() / 2, std::max(j * evenness_ - 1, 1.0)) / truth.unit_quantile(level());
  // The skewness of a mean falls with the square root of the number of units.
  const double skewed = 2 * lengthening_ * std::sqrt(pilot_units_ / j);
  std::vector<IntervalPower> out;
  out.reserve(open_.size());
  for (const VarianceComponents& one : open_) {
    truth.variance.seeds = one.seeds / s + truth.variance.interaction;
    truth.variance.units = one.units / j + truth.variance.interaction;
    const double longer = std::max(flips, 1 + (1 - truth.seed_share()) * skewed);
    out.emplace_back(truth, longer, level(), ratios);
  }
  return out;
}

double PilotPlan::power(double difference, std::size_t seeds, std::size_t units) const {
  return can_show(units) ? mean_power(powers(seeds, units), difference) : 0.0;
}

double PilotPlan::detectable(std::size_t seeds, std::size_t units) const {
  if (!can_show(units)) return std::numeric_limits<double>::infinity();
  const std::vector<IntervalPower> all = powers(seeds, units);
  const double start = std::sqrt(components_.units / static_cast<double>(units) +
                                 components_.seeds / static_cast<double>(seeds) +
                                 components_.noise / static_cast<double>(seeds * units));
  return difference_for_power([&](double difference) { return mean_power(all, difference); },
                              options_.power, start);
}

std::optional<std::size_t> PilotPlan::seeds_for(double difference, std::size_t units) const {
  return least_that(2, kMostSeeds, [&](std::size_t seeds) {
    return power(difference, seeds, units) >= options_.power;
  });
}

std::optional<std::size_t> PilotPlan::units_for(double difference, std::size_t seeds) const {
  return least_that(2, kMostUnits, [&](std::size_t units) {
    return power(difference, seeds, units) >= options_.power;
  });
}

}  // namespace mneme::stats
