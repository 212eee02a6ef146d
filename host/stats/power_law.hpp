// Losses of models of several sizes: a power law, its exponent, and the size at which two cross.
// docs/statistics.md, "Ladders of sizes".
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace mneme::stats {

// Losses of a ladder: [size][seed], above 0. Sizes may have different numbers of seeds.
using LadderLosses = std::vector<std::vector<double>>;

// The fewest points of a fit with a floor, which has three parameters.
inline constexpr std::size_t kFloorPoints = 5;
// The fewest points of any fit.
inline constexpr std::size_t kFitPoints = 3;

// y = floor + factor x^-exponent.
struct PowerLaw {
  bool has_floor = false;  // false: floor is 0, the exponent is minus the slope of log y over log x
  double exponent = 0;
  double factor = 0;
  double floor = 0;
};

// The power law of least squared residuals: with kFloorPoints or more of relative residuals
// (floor + factor x^-exponent - y) / y, with floor and factor at least 0 and an exponent in [0.01,
// 4]; with fewer of log y, without a floor. x rises and is above 0, y is above 0. Throws a usage
// error for fewer than kFitPoints.
[[nodiscard]] PowerLaw fit_power_law(std::span<const double> x, std::span<const double> y);

// A 95 % interval; NaN where there are fewer than two seeds.
struct SeedInterval {
  double low = 0;
  double high = 0;
};

// Of the exponent: percentiles of fits to resampled means. In each draw the seeds of each size are
// drawn with replacement. The drawn mean's distance to the mean is multiplied by sqrt(S / (S - 1)),
// so that its variance is that of a mean of S seeds [Davison and Hinkley 1997], and by the ratio of
// Student's to the normal quantile for the ladder's degrees of freedom, its seeds minus its sizes.
[[nodiscard]] SeedInterval exponent_interval(std::span<const double> x, const LadderLosses& losses);

// Where the losses of two memories cross.
struct Crossing {
  // The first x at which the memory that was below is no longer; absent: there is none.
  std::optional<double> at;
  bool is_second_below = false;  // at the smallest x
  std::size_t count = 0;         // crossings in the range
  // Of `at`, from resampled means; 0 and infinity: below and above all x. NaN: as SeedInterval.
  SeedInterval interval = {};
  double share = 0;  // of draws with a crossing; NaN likewise
};

// Of two memories at the same sizes x: zeros of log(second / first), which is linear in log x
// between sizes. In a draw both have the same seeds where they have equally many. A draw without a
// crossing counts as one above all x when its order is that of the smallest x, else below.
[[nodiscard]] Crossing find_crossing(std::span<const double> x, const LadderLosses& first,
                                     const LadderLosses& second);

}  // namespace mneme::stats
