#include "tests/stats/simulated_experiment.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>

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

constexpr double kMedianLength = 800;

// The units' lengths: the same for all experiments of a setting.
std::vector<double> draw_lengths(std::size_t units, double deviation) {
  std::vector<double> out;
  for (std::size_t j = 0; j < units; ++j) {
    const double place =
        normal_quantile((static_cast<double>(j) + 0.5) / static_cast<double>(units));
    out.push_back(std::max(1.0, std::round(kMedianLength * std::exp(deviation * place))));
  }
  return out;
}

// The deviation of a unit's noise over that of a unit of median length.
double noise_of_length(double targets) { return std::sqrt(0.5 + 0.5 * kMedianLength / targets); }

// What one value of one arm gives: of a difference of two arms each has half of the variance.
class TunedValue {
 public:
  TunedValue(const TunedSetting& setting, double mean, const std::vector<double>& targets,
             Random& random)
      : targets_(targets),
        mean_(mean),
        training_(std::sqrt(setting.seed_effect * static_cast<double>(setting.seeds) /
                            static_cast<double>(setting.units) / 2)) {
    for (std::vector<double>* const effects : {&valid_, &test_}) {
      for (std::size_t j = 0; j < targets.size(); ++j)
        effects->push_back(std::sqrt(0.5) * unit_effect(kSkew, random));
    }
  }

  [[nodiscard]] double mean() const { return mean_; }
  [[nodiscard]] double draw_training(Random& random) const { return training_ * random.normal(); }
  // Sums over the targets of each unit.
  [[nodiscard]] std::vector<double> on_valid(double training, Random& random) const {
    return on(valid_, training, random);
  }
  [[nodiscard]] std::vector<double> on_test(double training, Random& random) const {
    return on(test_, training, random);
  }

 private:
  static constexpr double kSkew = 0.5, kNoise = 0.5;  // those of Setting

  [[nodiscard]] std::vector<double> on(const std::vector<double>& effects, double training,
                                       Random& random) const {
    std::vector<double> out;
    for (std::size_t j = 0; j < targets_.size(); ++j) {
      const double noise = std::sqrt(0.5) * kNoise * noise_of_length(targets_[j]) * random.normal();
      out.push_back(targets_[j] * (mean_ + training + effects[j] + noise));
    }
    return out;
  }

  const std::vector<double>& targets_;
  double mean_;
  double training_;  // deviation
  std::vector<double> valid_, test_;
};

// The value of the lowest sum over the valid units, after one training each.
const TunedValue& choose(const std::vector<TunedValue>& values, Random& random) {
  std::vector<double> sums;
  for (const TunedValue& value : values) {
    const std::vector<double> losses = value.on_valid(value.draw_training(random), random);
    sums.push_back(std::accumulate(losses.begin(), losses.end(), 0.0));
  }
  return values[static_cast<std::size_t>(std::ranges::min_element(sums) - sums.begin())];
}

std::vector<double> less(std::vector<double> a, const std::vector<double>& b) {
  for (std::size_t j = 0; j < a.size(); ++j) a[j] -= b[j];
  return a;
}

}  // namespace

TunedExperiment draw_tuned_experiment(const TunedSetting& setting, Random& random) {
  const std::vector<double> targets = draw_lengths(setting.units, Setting().lengths);
  std::vector<TunedValue> of_arm, of_baseline;
  for (std::size_t v = 0; v < setting.values; ++v) {
    of_arm.emplace_back(setting, v == 0 ? 0.0 : 100.0, targets, random);
    of_baseline.emplace_back(setting, 0.0, targets, random);
  }
  const TunedValue& arm = choose(of_arm, random);
  const TunedValue& baseline = choose(of_baseline, random);
  TunedExperiment out;
  out.truth = arm.mean() - baseline.mean();
  out.test.targets = out.valid.targets = targets;
  for (std::size_t s = 0; s < setting.seeds; ++s) {
    const double of_arm_training = arm.draw_training(random);
    const double of_baseline_training = baseline.draw_training(random);
    if (setting.seeds == 1) out.truth += of_arm_training - of_baseline_training;
    out.test.sums.push_back(
        less(arm.on_test(of_arm_training, random), baseline.on_test(of_baseline_training, random)));
    out.valid.sums.push_back(less(arm.on_valid(of_arm_training, random),
                                  baseline.on_valid(of_baseline_training, random)));
  }
  return out;
}

Experiment draw_experiment(const Setting& setting, double mean, Random& random) {
  Experiment experiment{{}, mean};
  auto& [sums, targets] = experiment.differences;
  const auto units = static_cast<double>(setting.units);
  targets = draw_lengths(setting.units, setting.lengths);
  std::vector<double> effects;
  for (std::size_t j = 0; j < setting.units; ++j)
    effects.push_back(setting.unit_effect * unit_effect(setting.skew, random));
  const double seed_deviation =
      std::sqrt(setting.seed_effect * static_cast<double>(setting.seeds) / units);
  for (std::size_t s = 0; s < setting.seeds; ++s) {
    const double seed_effect = seed_deviation * random.normal();
    if (setting.seeds == 1) experiment.truth += seed_effect;
    auto& row = sums.emplace_back();
    for (std::size_t j = 0; j < setting.units; ++j) {
      const double noise = setting.interaction * noise_of_length(targets[j]) * random.normal();
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
