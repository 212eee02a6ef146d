// Mean and spread of one number over the seeds of an arm.
#pragma once

#include <cstddef>
#include <span>

namespace mneme::stats {

// NaN where a number is not defined: the mean of no value, the others of fewer than two.
struct SeedSummary {
  std::size_t count = 0;
  double mean = 0;
  double deviation = 0;  // standard deviation, divisor count - 1
  double low = 0;        // mean -+ t(count - 1) deviation / sqrt(count): holds the mean over all
  double high = 0;       //   seeds with probability `level`, if values are normal over seeds
};

// Throws a run error for a value that is not finite, a usage error for a level outside (0, 1).
[[nodiscard]] SeedSummary summarise_seeds(std::span<const double> values, double level = 0.95);

}  // namespace mneme::stats
