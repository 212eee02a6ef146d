// What the interval and the test of a paired comparison, and its planning, are made of: the mean
// difference, the parts of its variance, and degrees of freedom (docs/statistics.md, "Interval").
#pragma once

#include <span>
#include <vector>

#include "host/stats/paired.hpp"

namespace mneme::stats {

struct Estimate {
  double mean = 0;
  std::vector<double> seed_means;        // [S]
  std::vector<double> unit_differences;  // [J] mean over seeds
  VarianceParts variance;
  double unit_degrees = 0;
  double seed_degrees = 0;  // 0 with one seed

  // Units' part without the noise that the seeds' part contains already.
  [[nodiscard]] double own_units() const;
  [[nodiscard]] double whole() const { return variance.seeds + own_units(); }
  [[nodiscard]] double seed_share() const { return whole() > 0 ? variance.seeds / whole() : 0.0; }
  [[nodiscard]] double standard_error() const;
  // How much of the seeds' few degrees of freedom the interval takes over: near 0 where units cause
  // most of the variance, near 1 where seeds do.
  [[nodiscard]] double seed_weight() const;
  // The t quantile of the units' part for an interval that leaves out `outside` (two-sided).
  [[nodiscard]] double unit_quantile(double outside) const;
  // Half the width of that interval.
  [[nodiscard]] double half_width(double outside) const;
  // The same from the t quantiles of units and, with several seeds, of seeds.
  [[nodiscard]] double half_width(double of_units, double of_seeds) const;
};

// Of differences that compare_paired takes.
[[nodiscard]] Estimate estimate_of(const PairedDifferences& differences);

// What a variance of `degrees` degrees of freedom is estimated as, over the true one: quantiles at
// `count` equally probable places, rising.
[[nodiscard]] std::vector<double> variance_ratios(double degrees, int count);

// What an experiment's estimates are over the true variances.
struct EstimateRatios {
  double seeds = 1;
  double units = 1;  // of own_units()
};

// How probably the interval of an experiment whose true variances are those of `truth` excludes 0,
// at the level `outside`. Its width is `longer` times that of half_width, with variances times each
// of `ratios` in turn.
class IntervalPower {
 public:
  IntervalPower(const Estimate& truth, double longer, double outside,
                std::span<const EstimateRatios> ratios);

  // At a true difference of at least 0; an interval on the other side of 0 does not count.
  [[nodiscard]] double at(double difference) const;

 private:
  double deviation_;
  std::vector<double> half_widths_;
};

// The least difference at which `power_at`, which rises, is `goal`: to 1e-6 of it. `start` > 0.
template <typename PowerAt>
double difference_for_power(const PowerAt& power_at, double goal, double start) {
  double low = 0;
  double high = start;
  while (power_at(high) < goal) high *= 2;
  while (high - low > 1e-6 * high) {
    const double middle = 0.5 * (low + high);
    (power_at(middle) < goal ? low : high) = middle;
  }
  return high;
}

// The true difference that intervals of repetitions of the experiment exclude 0 from with
// probability `power`, if the estimated variances are the true ones. `longer` is the interval's
// width over that of half_width, `outside` the level of the test.
[[nodiscard]] double detectable(const Estimate& estimate, double longer, double outside,
                                double power);

}  // namespace mneme::stats
