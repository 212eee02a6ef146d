#include "tests/stats/simulated_experiment.hpp"

#include <algorithm>
#include <cmath>

#include "host/stats/distributions.hpp"

namespace mneme::stats {
namespace {

// A unit's effect: mean 0, variance 1.
double unit_effect(double skew, Random& random) {
  const double z = random.normal();
  if (skew == 0) return z;
  const double variance = skew * skew;
  const double mean = std::exp(variance / 2);
  return (std::exp(skew * z) - mean) / (mean * std::sqrt(std::exp(variance) - 1));
}

}  // namespace

Experiment draw_experiment(const Setting& setting, double mean, Random& random) {
  constexpr double kMedianLength = 800;
  Experiment experiment{{}, mean};
  auto& [sums, targets] = experiment.differences;
  const auto units = static_cast<double>(setting.units);
  std::vector<double> effects;
  for (std::size_t j = 0; j < setting.units; ++j) {
    const double place = normal_quantile((static_cast<double>(j) + 0.5) / units);
    targets.push_back(std::max(1.0, std::round(kMedianLength * std::exp(setting.lengths * place))));
    effects.push_back(setting.unit_effect * unit_effect(setting.skew, random));
  }
  const double seed_deviation =
      std::sqrt(setting.seed_effect * static_cast<double>(setting.seeds) / units);
  for (std::size_t s = 0; s < setting.seeds; ++s) {
    const double seed_effect = seed_deviation * random.normal();
    if (setting.seeds == 1) experiment.truth += seed_effect;
    auto& row = sums.emplace_back();
    for (std::size_t j = 0; j < setting.units; ++j) {
      const double noise =
          setting.interaction * std::sqrt(0.5 + 0.5 * kMedianLength / targets[j]) * random.normal();
      row.push_back(targets[j] * (mean + seed_effect + effects[j] + noise));
    }
  }
  return experiment;
}

std::vector<std::vector<std::vector<double>>> draw_stream(std::size_t seeds, std::size_t lanes,
                                                          std::size_t targets, Random& random) {
  std::vector<double> seed_effects;
  for (std::size_t s = 0; s < seeds; ++s) seed_effects.push_back(0.02 * random.normal());
  std::vector<std::vector<std::vector<double>>> stream(seeds,
                                                       std::vector<std::vector<double>>(lanes));
  const double innovation = std::sqrt(1 - 0.5 * 0.5);
  std::vector<double> noise(seeds);
  for (std::size_t lane = 0; lane < lanes; ++lane) {
    std::size_t rest = 0;
    double document = 0;
    double common = 0;
    for (std::size_t i = 0; i < targets; ++i) {
      if (rest == 0) {
        rest = 20 + static_cast<std::size_t>(-80 * std::log(random.uniform_open()));
        document = 0.3 * random.normal();
        common = random.normal();
        for (double& value : noise) value = random.normal();
      }
      --rest;
      common = 0.5 * common + innovation * random.normal();
      for (std::size_t s = 0; s < seeds; ++s) {
        noise[s] = 0.5 * noise[s] + innovation * random.normal();
        stream[s][lane].push_back(seed_effects[s] + document +
                                  std::sqrt(0.5) * (common + noise[s]));
      }
    }
  }
  return stream;
}

}  // namespace mneme::stats
