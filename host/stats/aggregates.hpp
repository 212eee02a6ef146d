// Scores of several runs on each of several tasks as a few numbers, with a bootstrap that is
// stratified by task [Agarwal et al. 2021, Deep reinforcement learning at the edge of the
// statistical precipice]. docs/statistics.md, "Many tasks", has formulas and error rates.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace mneme::stats {

// [M][S]: of each task the scores of its runs, the same number of each.
using TaskScores = std::vector<std::vector<double>>;

// A number with its percentile interval over resamples.
struct Aggregate {
  double value = 0;
  double low = 0;
  double high = 0;
};

struct Aggregates {
  Aggregate interquartile_mean;    // of all M S scores without the lowest and the highest quarter
  Aggregate mean;                  // of all scores
  Aggregate median;                // over tasks, of the mean over runs
  Aggregate optimality_gap;        // mean of max(0, 1 - score)
  std::vector<Aggregate> profile;  // [threshold]: share of all scores above it
};

struct AggregateOptions {
  double level = 0.95;  // of the intervals
  int draws = 5000;
  std::uint64_t seed = 1;  // of the draws: equal input and options give equal results
};

// A resample draws the runs of each task with replacement; the tasks stay. One thread. Throws a run
// error for scores that are none, not finite, or of other numbers of runs, a usage error for a
// level outside (0, 1) and for draws below 1.
[[nodiscard]] Aggregates aggregate_scores(const TaskScores& scores,
                                          std::span<const double> thresholds,
                                          const AggregateOptions& options = {});

// Probability of improvement: that a run's score of a task is above one of `others`, equal scores
// counted as a half; mean over tasks [Mann and Whitney 1947]. `others` has the same tasks, and its
// runs are drawn apart from those of `scores`. Throws as aggregate_scores.
[[nodiscard]] Aggregate probability_of_improvement(const TaskScores& scores,
                                                   const TaskScores& others,
                                                   const AggregateOptions& options = {});

}  // namespace mneme::stats
