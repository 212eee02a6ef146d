#include "host/stats/estimate.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>

#include "host/stats/distributions.hpp"
#include "host/stats/resample.hpp"

namespace mneme::stats {

double Estimate::own_units() const { return std::max(variance.units - variance.interaction, 0.0); }

double Estimate::standard_error() const { return std::sqrt(std::max(whole(), variance.units)); }

double Estimate::seed_weight() const {
  if (variance.seeds == 0) return 0;
  const double rest = own_units() * (seed_degrees == 1 ? 0.8 : 1.5);
  return variance.seeds * variance.seeds / (variance.seeds * variance.seeds + rest * rest);
}

double Estimate::unit_quantile(double outside) const {
  return t_quantile(1 - outside / 2, unit_degrees);
}

double Estimate::half_width(double outside) const {
  return half_width(unit_quantile(outside),
                    seed_degrees == 0 ? 0.0 : t_quantile(1 - outside / 2, seed_degrees));
}

double Estimate::half_width(double of_units, double of_seeds) const {
  if (seed_degrees == 0) return of_units * std::sqrt(variance.units);
  const double weight = seed_weight();
  const double quantile2 = (1 - weight) * of_units * of_units + weight * of_seeds * of_seeds;
  // Seeds that agree by chance must not make it narrower than the units alone do.
  return std::sqrt(std::max(whole() * quantile2, variance.units * of_units * of_units));
}

Estimate estimate_of(const PairedDifferences& differences) {
  const std::span<const double> targets = differences.targets;
  const auto seeds = static_cast<double>(differences.sums.size());
  double total = 0;
  for (const double n : targets) total += n;
  Estimate estimate;
  estimate.unit_differences.assign(targets.size(), 0.0);
  double magnitude = 0;
  for (const auto& row : differences.sums) {
    double sum = 0;
    for (std::size_t j = 0; j < row.size(); ++j) {
      sum += row[j];
      magnitude += std::abs(row[j]) / (total * seeds);
      estimate.unit_differences[j] += row[j] / seeds;
    }
    estimate.seed_means.push_back(sum / total);
    estimate.mean += sum / total / seeds;
  }
  // A variance of rounding errors alone is 0.
  const auto without_rounding = [&](double value) {
    return value > magnitude * magnitude * 1e-26 ? value : 0.0;
  };
  if (seeds > 1) {
    double squares = 0;
    for (const double mean : estimate.seed_means) {
      squares += (mean - estimate.mean) * (mean - estimate.mean);
    }
    estimate.seed_degrees = seeds - 1;
    estimate.variance.seeds = without_rounding(squares / (seeds - 1) / seeds);
  }
  if (targets.size() < 2) return estimate;
  estimate.unit_degrees = static_cast<double>(targets.size()) - 1;
  estimate.variance.units =
      without_rounding(unit_variance(estimate.unit_differences, targets).variance);
  if (seeds > 1) {
    double interaction = 0;
    std::vector<double> rest(targets.size());
    for (const auto& row : differences.sums) {
      for (std::size_t j = 0; j < rest.size(); ++j) rest[j] = row[j] - estimate.unit_differences[j];
      interaction += unit_variance(rest, targets).variance;
    }
    estimate.variance.interaction = without_rounding(interaction / seeds / (seeds - 1));
  }
  return estimate;
}

std::vector<double> variance_ratios(double degrees, int count) {
  std::vector<double> out;
  out.reserve(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) {
    out.push_back(chi_squared_quantile((i + 0.5) / count, degrees) / degrees);
  }
  return out;
}

IntervalPower::IntervalPower(const Estimate& truth, double longer, double outside,
                             std::span<const EstimateRatios> ratios)
    : deviation_(truth.standard_error()) {
  const double of_units = truth.unit_quantile(outside);
  const double of_seeds = t_quantile(1 - outside / 2, truth.seed_degrees);
  Estimate repeated = truth;
  half_widths_.reserve(ratios.size());
  for (const EstimateRatios& ratio : ratios) {
    repeated.variance.seeds = truth.variance.seeds * ratio.seeds;
    if (ratio.units != 1) {
      repeated.variance.units = truth.variance.interaction + truth.own_units() * ratio.units;
    }
    half_widths_.push_back(longer * repeated.half_width(of_units, of_seeds));
  }
}

double IntervalPower::at(double difference) const {
  double power = 0;
  for (const double half : half_widths_) {
    power += normal_probability((difference - half) / deviation_);
  }
  return power / static_cast<double>(half_widths_.size());
}

double detectable(const Estimate& estimate, double longer, double outside, double power) {
  // With one seed the units' mean over its standard error is noncentral t.
  if (estimate.seed_degrees == 0 || estimate.variance.seeds == 0) {
    const double critical = longer * estimate.unit_quantile(outside);
    return std::sqrt(estimate.variance.units) *
           t_shift_for_power(power, estimate.unit_degrees, critical);
  }
  constexpr int kQuantiles = 100;
  // A variance of few seeds is too small more often than too large: its median is corrected.
  Estimate truth = estimate;
  truth.variance.seeds = estimate.variance.seeds * estimate.seed_degrees /
                         chi_squared_quantile(0.5, estimate.seed_degrees);
  std::vector<EstimateRatios> ratios;
  for (const double ratio : variance_ratios(estimate.seed_degrees, kQuantiles)) {
    ratios.push_back({.seeds = ratio});
  }
  const IntervalPower of_truth(truth, longer, outside, ratios);
  return difference_for_power([&](double difference) { return of_truth.at(difference); }, power,
                              truth.standard_error());
}

}  // namespace mneme::stats
