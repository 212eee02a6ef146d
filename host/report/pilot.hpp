// What a comparison of a few seeds, the pilot, says of one that is planned: the noise floor, the
// smallest differences that more seeds and units can show, and what these cost. docs/compare.md,
// "Planning", describes what is printed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "host/base/text.hpp"
#include "host/report/comparison/comparison.hpp"
#include "host/stats/plan.hpp"

namespace mneme::report {

// How far trainings of one arm with other seeds lie from each other, in nats a target.
struct NoiseFloor {
  std::vector<std::size_t> seeds;  // [arm] that have losses on the split
  std::vector<double> deviations;  // [arm] standard deviation over them; NaN: fewer than two
  double deviation = 0.0;          // pooled over the arms
  std::size_t degrees = 0;         // of freedom on which it rests

  // Root mean square of the difference of two trainings.
  [[nodiscard]] double two_trainings() const;
};

// One seed of all arms, one run after another, as the pilot's runs were; NaN = not known.
struct SeedCost {
  double seconds = 0.0;        // of training, and of evaluations whose cost stays
  double split_seconds = 0.0;  // of evaluations on the split, which grow with its units
  double bytes = 0.0;          // of run folders without the evaluations of the split
  double split_bytes = 0.0;
};

struct Extent {
  std::size_t seeds = 0;
  std::size_t units = 0;
};

struct PlannedArm {
  std::string name;
  std::string baseline;    // of a tuned arm the tuned form of the first
  std::size_t family = 1;  // arms over which Holm's correction goes
  double mean = 0.0;       // the pilot's own difference, nats a target
  // Standard deviation of the difference over the seeds.
  double deviation = 0.0;
  stats::VarianceComponents variance;
  std::vector<double> detectable;  // by PilotReport::extents
  // Seeds that the wished difference needs, by PilotReport::units; absent: more than are tried.
  std::vector<std::optional<std::size_t>> needed;
};

struct PilotReport {
  std::string split = {};
  std::string baseline = {};    // of the arms of the first one's kind
  std::string unit = {};        // "document"
  std::size_t block = 0;        // targets of a block; 0 = other units
  std::size_t seeds = 0;        // fewest that an arm and the baseline have
  std::uint64_t next_seed = 0;  // first one that no run of the pilot has
  bool is_tuned = false;        // has tuned arms, whose trials are no part of the cost
  NoiseFloor noise = {};
  SeedCost cost = {};
  std::vector<std::string> arms_of_noise = {};
  std::vector<std::size_t> units = {};  // of the split: the pilot's, and multiples of it
  std::vector<Extent> extents = {};     // that are tried
  std::vector<PlannedArm> arms = {};
  std::vector<std::string> left_out = {};  // arms and why, a sentence each
  double difference = 0.0;                 // wished; 0 = none

  [[nodiscard]] double seconds(Extent extent) const;
  [[nodiscard]] double bytes(Extent extent) const;
  // In lines of at most `width` columns (0 = any).
  [[nodiscard]] std::string text(std::size_t width = 0) const;
  // Format "mneme-plan", version 1.
  [[nodiscard]] Json json() const;
};

// `split`: "" = the first that has losses. `difference`: that one would like to show; 0 = none.
// Errors: Error (kUsage) for a split without losses and a comparison of one arm; Error (kRun) with
// the arm's name for a pilot of one seed (stats::PilotPlan), or when no arm can be compared.
[[nodiscard]] PilotReport read_pilot(const Comparison& comparison, const std::string& split,
                                     double difference);

}  // namespace mneme::report
