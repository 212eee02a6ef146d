// Simulated comparisons of two arms whose true difference is known.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "host/base/random.hpp"
#include "host/stats/paired.hpp"

namespace mneme::stats {

// A family of experiments. The difference of unit j (n_j targets) in seed s is
//   n_j (mean + A_s + B_j + E_sj)
// with seed effects A (normal), unit effects B and noise E (normal). The deviation of B is 1, which
// makes 1 / sqrt(J) the deviation of a mean over J equal units.
struct Setting {
  std::string name;
  std::size_t seeds = 1;
  std::size_t units = 60;
  double seed_effect = 0;  // variance of the mean by seeds over that by units, at equal lengths
  double interaction =
      0.5;                 // deviation of E in a unit of median length, half of it from the number
                           //   of targets
  double lengths = 0.7;    // deviation of the logarithm of the units' lengths (log-normal)
  double skew = 0.5;       // B: exp of a normal number with this deviation, standardised; 0: normal
  double unit_effect = 1;  // factor of B; 0: identical arms
};

struct Experiment {
  PairedDifferences differences;
  double truth = 0;  // what the interval should hold: with one seed, that seed's
};

// Draws the effects of one experiment; the units' lengths are the same for all of a setting.
[[nodiscard]] Experiment draw_experiment(const Setting& setting, double mean, Random& random);

// Two arms that have chosen one of several values each, as `mneme compare --tune` does. The loss of
// unit j (n_j targets) after one training with a value is
//   n_j (mean of the value + A of the training + B_j of the value + E_j)
// so that the difference of two arms is as in Setting. The choice is the lowest mean over the valid
// units after one training. Of the arm, one value is much the best; of the baseline all are equally
// good, so that its choice is one of noise alone, and the lowest loss is too low the most.
struct TunedSetting {
  std::size_t values = 4;
  std::size_t seeds = 3;
  std::size_t units = 60;
  double seed_effect = 1;  // as in Setting
};
struct TunedExperiment {
  PairedDifferences test;   // fresh trainings with the chosen values, on units of their own
  PairedDifferences valid;  // the same trainings on the units of the choice
  double truth = 0;         // with one seed, of these trainings
};
[[nodiscard]] TunedExperiment draw_tuned_experiment(const TunedSetting& setting, Random& random);

// Token losses of a stream in lanes, whose documents the comparison does not know: lengths
// 20 + geometric with mean 80, one effect a document (deviation 0.3), noise of a token that is
// correlated inside a document (autoregression, 0.5) with half of its variance common to all seeds,
// seed effects. Indices [seed][lane][target].
[[nodiscard]] std::vector<std::vector<std::vector<double>>> draw_stream(std::size_t seeds,
                                                                        std::size_t lanes,
                                                                        std::size_t targets,
                                                                        Random& random);

}  // namespace mneme::stats
