#include "host/stats/aggregates.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>

#include "host/base/error.hpp"
#include "host/base/random.hpp"
#include "host/base/text.hpp"
#include "host/stats/resample.hpp"

namespace mneme::stats {
namespace {

void check_scores(const TaskScores& scores) {
  if (scores.empty() || scores.front().empty()) {
    throw_run({.failed = "aggregate over tasks", .expected = "a score", .got = "none"});
  }
  for (std::size_t task = 0; task < scores.size(); ++task) {
    const std::vector<double>& runs = scores[task];
    if (runs.size() != scores.front().size()) {
      throw_run({.where = str("task number ", task + 1),
                 .failed = "aggregate over tasks",
                 .expected = str(scores.front().size(), " runs, as of the first one"),
                 .got = str(runs.size())});
    }
    const auto bad = std::ranges::find_if_not(runs, [](double one) { return std::isfinite(one); });
    if (bad != runs.end()) {
      throw_run({.where = str("task number ", task + 1, ", run number ", bad - runs.begin() + 1),
                 .failed = "aggregate over tasks",
                 .expected = "a finite number",
                 .got = str(*bad)});
    }
  }
}

void check_aggregate_options(const AggregateOptions& options) {
  if (!(options.level > 0 && options.level < 1)) {
    throw_usage(
        {.failed = "level of an interval", .expected = "0 < level < 1", .got = str(options.level)});
  }
  if (options.draws < 1) {
    throw_usage(
        {.failed = "draws of a bootstrap", .expected = "at least 1", .got = str(options.draws)});
  }
}

double mean_score(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

// `rising` is sorted. Half of an even number of values: the mean of the two in the middle.
double median_of(std::span<const double> rising) {
  const std::size_t half = rising.size() / 2;
  return rising.size() % 2 == 1 ? rising[half] : (rising[half - 1] + rising[half]) / 2;
}

// The four numbers of Aggregates, then the profile.
std::vector<double> numbers_of(const TaskScores& scores, std::span<const double> thresholds) {
  std::vector<double> all;
  std::vector<double> means;
  for (const std::vector<double>& runs : scores) {
    all.insert(all.end(), runs.begin(), runs.end());
    means.push_back(mean_score(runs));
  }
  std::ranges::sort(all);
  std::ranges::sort(means);
  const auto count = static_cast<double>(all.size());
  // A number of values that is no multiple of four loses fewer than half, as with scipy.stats's
  // trim_mean: what is left out of each side is rounded down.
  const std::size_t quarter = all.size() / 4;
  double gap = 0;
  for (const double score : all) gap += std::max(0.0, 1 - score);
  std::vector<double> out = {mean_score(std::span(all).subspan(quarter, all.size() - 2 * quarter)),
                             mean_score(means), median_of(means), gap / count};
  for (const double threshold : thresholds) {
    out.push_back(static_cast<double>(all.end() - std::ranges::upper_bound(all, threshold)) /
                  count);
  }
  return out;
}

double improvement_of(const TaskScores& scores, const TaskScores& others) {
  double sum = 0;
  for (std::size_t task = 0; task < scores.size(); ++task) {
    double wins = 0;
    for (const double one : scores[task]) {
      for (const double other : others[task]) wins += one > other ? 1.0 : one == other ? 0.5 : 0.0;
    }
    sum += wins / static_cast<double>(scores[task].size() * others[task].size());
  }
  return sum / static_cast<double>(scores.size());
}

// `numbers` of the samples, each with its interval over resamples of all of them.
template <typename Numbers>
std::vector<Aggregate> stratified(const std::vector<TaskScores>& samples, const Numbers& numbers,
                                  const AggregateOptions& options) {
  check_aggregate_options(options);
  for (const TaskScores& scores : samples) check_scores(scores);
  std::vector<Aggregate> out;
  for (const double value : numbers(samples)) out.push_back({.value = value});
  std::vector<std::vector<double>> drawn(out.size());
  std::vector<TaskScores> resample = samples;
  Random random(options.seed, {"stratified bootstrap"});
  for (int draw = 0; draw < options.draws; ++draw) {
    for (std::size_t i = 0; i < samples.size(); ++i) {
      for (std::size_t task = 0; task < samples[i].size(); ++task) {
        const std::vector<double>& runs = samples[i][task];
        for (double& one : resample[i][task]) {
          one = runs[static_cast<std::size_t>(random.below(runs.size()))];
        }
      }
    }
    const std::vector<double> values = numbers(resample);
    for (std::size_t i = 0; i < values.size(); ++i) drawn[i].push_back(values[i]);
  }
  const double tail = (1 - options.level) / 2;
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i].low = quantile_of(drawn[i], tail);
    out[i].high = quantile_of(drawn[i], 1 - tail);
  }
  return out;
}

}  // namespace

Aggregates aggregate_scores(const TaskScores& scores, std::span<const double> thresholds,
                            const AggregateOptions& options) {
  const std::vector<Aggregate> all = stratified(
      {scores},
      [&](const std::vector<TaskScores>& one) { return numbers_of(one.front(), thresholds); },
      options);
  return {.interquartile_mean = all[0],
          .mean = all[1],
          .median = all[2],
          .optimality_gap = all[3],
          .profile = {all.begin() + 4, all.end()}};
}

Aggregate probability_of_improvement(const TaskScores& scores, const TaskScores& others,
                                     const AggregateOptions& options) {
  if (scores.size() != others.size()) {
    throw_run({.failed = "probability of improvement",
               .expected = str(scores.size(), " tasks of both"),
               .got = str(others.size())});
  }
  const std::vector<Aggregate> one = stratified(
      {scores, others},
      [](const std::vector<TaskScores>& both) {
        return std::vector<double>{improvement_of(both[0], both[1])};
      },
      options);
  return one.front();
}

}  // namespace mneme::stats
