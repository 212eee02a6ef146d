// The two resampling schemes behind a paired comparison: the bootstrap, which gives the skew of its
// interval, and sign flips, which give its p value. Both work on studentised means.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace mneme::stats {

// The quantile of values, at least one, by linear interpolation between order statistics, as numpy's
// default. Puts them into another order.
[[nodiscard]] double quantile_of(std::vector<double>& values, double probability);

// Ratio of sums with its variance between units.
struct UnitVariance {
  double mean = 0;      // sum of differences / sum of targets
  double variance = 0;  // of the mean
};

// Mean of `differences` [J] over `targets` [J], J > 1, and its variance when the units are
// independent: sum of e_j^2 / (1 - n_j / N) / N^2 with residuals e_j = d_j - n_j mean. This is the
// cluster-robust variance HC2 of a weighted mean [Bell and McCaffrey 2002]; with equal targets it
// is the square of the usual standard error of a mean.
[[nodiscard]] UnitVariance unit_variance(std::span<const double> differences,
                                         std::span<const double> targets);

// Two quantiles of (mean* - mean) / standard error*, over bootstrap resamples.
struct Tails {
  double lower = 0;  // below 0
  double upper = 0;  // above 0
};

// Bootstrap-t [Hall 1988] with seeds and units drawn with replacement, `draws` times. `sums` is
// [S][J], J > 1. A draw's mean is taken about the mean of the drawn seeds: how far seeds differ
// cannot be learned from drawing a few of them again, so that part of the error stays with the
// caller. The quantiles are those at `tail` and 1 - tail.
[[nodiscard]] Tails bootstrap_tails(std::span<const std::vector<double>> sums,
                                    std::span<const double> targets, double tail, int draws,
                                    std::uint64_t seed);

// |t| of `differences` [J] under sign flips of whole units, in falling order: if there is no
// difference and they are symmetric about 0, each flip is as probable as the data. With J at most
// `exact_units` all flips, once for each pair of opposite ones (2^(J-1) values), else `draws`.
struct SignFlips {
  double observed = 0;         // |t| of the data
  std::vector<double> values;  // falling
  bool is_exact = false;

  // Probability of a value of at least `threshold`: their share, or (1 + count) / (1 + draws).
  [[nodiscard]] double tail(double threshold) const;
  // The smallest p value that any data of this number of units and draws can have.
  [[nodiscard]] double smallest_tail() const;
};

[[nodiscard]] SignFlips sign_flips(std::span<const double> differences,
                                   std::span<const double> targets, int exact_units, int draws,
                                   std::uint64_t seed);

}  // namespace mneme::stats
