// What further experiments could show, by the variances that a small one, the pilot, has measured
// (docs/statistics.md, "Planning").
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "host/stats/estimate.hpp"
#include "host/stats/paired.hpp"

namespace mneme::stats {

// Variances of a difference per target, (nats a target)^2.
struct VarianceComponents {
  double seeds = 0;  // between trainings
  double units = 0;  // between units, over all trainings
  double noise = 0;  // of one unit in one training
};

// Deterministic; no state but its own; one thread.
class PilotPlan {
 public:
  static constexpr std::size_t kMostSeeds = 1000;
  static constexpr std::size_t kMostUnits = 1'000'000;

  // `pilot` as compare_paired gives it with `options`, whose level, power and arms are those of the
  // planned experiment. Error (kRun) for a pilot of one seed or one unit, or whose differences do
  // not vary.
  explicit PilotPlan(const PairedResult& pilot, const PairedOptions& options = {});

  [[nodiscard]] const VarianceComponents& components() const { return components_; }

  // Probability that an experiment of S `seeds` and J `units`, both at least 2, of lengths like the
  // pilot's, shows that the arm's mean is lower where it truly is, by `difference` > 0. It is the
  // mean over the variances that the pilot leaves open, so that it holds on the average of pilots.
  [[nodiscard]] double power(double difference, std::size_t seeds, std::size_t units) const;
  // The smallest difference whose power is options.power; infinite where no sign-flip test of so
  // few units reaches the level.
  [[nodiscard]] double detectable(std::size_t seeds, std::size_t units) const;
  // The fewest seeds, or units, with which `difference` > 0 has this power; none where the most
  // do not suffice.
  [[nodiscard]] std::optional<std::size_t> seeds_for(double difference, std::size_t units) const;
  [[nodiscard]] std::optional<std::size_t> units_for(double difference, std::size_t seeds) const;

 private:
  // One for each of `open_`.
  [[nodiscard]] std::vector<IntervalPower> powers(std::size_t seeds, std::size_t units) const;
  [[nodiscard]] bool can_show(std::size_t units) const;
  [[nodiscard]] double level() const;

  [[nodiscard]] double units_degrees(double units) const;

  PairedOptions options_;
  VarianceComponents components_;
  std::vector<VarianceComponents> open_;  // truths that the pilot leaves open, equally probable
  double pilot_units_ = 0;
  double evenness_ = 1;     // effective units over units
  double lengthening_ = 0;  // of the interval's upper end by the bootstrap, of the units' part
};

}  // namespace mneme::stats
