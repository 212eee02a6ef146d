// Looks at a comparison whose seeds are added one by one until a difference is shown: levels,
// intervals and p values that hold whenever one stops (docs/statistics.md, "Looking early").
#pragma once

#include <cstddef>
#include <vector>

#include "host/stats/paired.hpp"

namespace mneme::stats {

// A look after every seed, from first_look() to max_seeds(). A look at n of N seeds is made at the
// nominal level c (n / N)^2, which the common factor c turns into a probability for all looks
// together: that of a t statistic of independent normal seeds to exceed any of its bounds where
// there is no difference [Jennison and Turnbull 1991]. Deterministic; immutable once made.
class LookPlan {
 public:
  static constexpr std::size_t kFewestSeeds = 3;
  static constexpr std::size_t kMostSeeds = 50;

  // Error (kUsage) for a number of seeds outside these.
  explicit LookPlan(std::size_t max_seeds);

  [[nodiscard]] std::size_t max_seeds() const { return max_seeds_; }
  // Three seeds or, of more than 12, a quarter of them: earlier looks would have levels at which
  // neither sign flips nor the interval's approximation are exact.
  [[nodiscard]] static std::size_t first_look_of(std::size_t max_seeds);
  [[nodiscard]] std::size_t first_look() const { return first_look_of(max_seeds_); }

  // The nominal level of the look at so many seeds, if all looks together have `level`, above 0 and
  // below 1. `seeds` from first_look() to max_seeds(), likewise below.
  [[nodiscard]] double nominal_level(std::size_t seeds, double level) const;
  // The repeated p value [Jennison and Turnbull 1989]: the least level of all looks at which a look
  // with the p value `p` rejects. At most a is it with probability a or less at any look, however
  // one stops.
  [[nodiscard]] double repeated_p(std::size_t seeds, double p) const;

 private:
  // Probability that a look rejects at the nominal levels of a factor; rises with it.
  [[nodiscard]] double probability(double factor) const;
  [[nodiscard]] double share2(std::size_t seeds) const;

  std::size_t max_seeds_;
  // For factors at equal distances of their logarithm, from kLeastFactor to 1: the probability over
  // the factor, which falls.
  std::vector<double> ratios_;
};

// The probability that a LookPlan of these looks tabulates, by recursion over the looks: of seeds
// n = `first` to `last`, at the nominal levels `factor` (n / last)^2.
[[nodiscard]] double look_probability(std::size_t first, std::size_t last, double factor);

// As compare_paired of the seeds that are there, at a look: the interval is the repeated confidence
// interval, which holds the mean difference with probability options.level whenever one stops; p is
// the repeated p value; the smallest detectable difference is that of this look alone. Errors as
// compare_paired; a usage error for a number of seeds at which the plan has no look.
[[nodiscard]] PairedResult compare_at_look(const PairedDifferences& differences,
                                           const LookPlan& plan, const PairedOptions& options = {});

// The repeated p value of a one-sided one, as of margin_p.
[[nodiscard]] double repeated_one_sided_p(const LookPlan& plan, std::size_t seeds, double p);

}  // namespace mneme::stats
