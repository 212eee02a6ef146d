#include "host/compare/planning/curve.hpp"

#include <algorithm>

#include "host/optim/schedule.hpp"
#include "host/run/runtime.hpp"

namespace mneme::compare {
namespace {

constexpr std::int64_t kPoints = 10;
constexpr double kShare = 0.1;               // of the training's time
constexpr double kEvaluationCost = 0.5;      // of a segment's in training
constexpr std::int64_t kFewestSegments = 4;  // the first ones find an empty memory

// Segments that evaluations may take, all together.
double affordable_segments(const config::Experiment& experiment, std::int64_t steps) {
  const config::TrainConfig& train = experiment.train;
  const config::EvalConfig& eval = experiment.eval;
  double segments = 0.0;
  for (std::int64_t from = 0; from < steps;) {  // by the periods of accumulation
    std::int64_t to = steps;
    for (const config::AccumulateFrom& period : train.accumulate_from) {
      if (period.step > from) to = std::min(to, period.step);
    }
    segments += static_cast<double>((to - from) * optim::accumulation(train, from));
    from = to;
  }
  segments *= static_cast<double>(train.bptt_segments);
  const double size = static_cast<double>(eval.lanes * eval.segment) /
                      static_cast<double>(train.lanes * train.segment);
  return kShare * segments / (kEvaluationCost * std::max(1.0, size));
}

// At least `segments`, and so many that the last sequence with a target among them is whole; 0 =
// the split has no target.
std::int64_t with_targets(const config::Experiment& experiment, const data::Dataset& dataset,
                          std::int64_t segments) {
  const auto stream =
      dataset.make_stream(data::Split::kValid, run::evaluation_options(experiment, dataset));
  std::int64_t read = 0;
  bool has_target = false;
  for (data::TokenSegment segment; stream->next(segment); ++read) {
    const bool is_asked = segment.target_count() > 0;
    if (read >= segments && has_target && !is_asked) break;
    has_target = has_target || is_asked;
    if (read + 1 >= segments && has_target && dataset.answer_task() == nullptr) return read + 1;
  }
  return has_target ? read : 0;
}

}  // namespace

CurvePlan plan_curve(const config::Experiment& experiment, const data::Dataset& dataset,
                     std::int64_t steps) {
  if (!dataset.has(data::Split::kValid)) return {};
  const double affordable = affordable_segments(experiment, steps);
  const std::int64_t every = experiment.train.eval_every;
  CurvePlan plan{.points = every > 0 ? (steps + every - 1) / every : kPoints};
  const auto wanted = static_cast<std::int64_t>(
      affordable / static_cast<double>(std::max<std::int64_t>(1, plan.points)));
  plan.segments = with_targets(experiment, dataset, std::max(wanted, kFewestSegments));
  if (plan.segments == 0) return {};
  plan.points = std::min(
      plan.points, static_cast<std::int64_t>(affordable / static_cast<double>(plan.segments)));
  return plan.points < 2 ? CurvePlan() : plan;
}

}  // namespace mneme::compare
