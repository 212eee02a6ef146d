#include "host/compare/planning/plan.hpp"

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "host/base/error.hpp"
#include "host/base/progress.hpp"
#include "host/compare/planning/disk.hpp"
#include "host/run/run_folder.hpp"
#include "host/tensor/dense_product.hpp"
#include "host/tensor/torch.hpp"
#include "host/train/trainer.hpp"

namespace mneme::compare {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kMostFilling = 16;  // steps before the timed ones
constexpr std::int64_t kFewestSteps = 3;   // timed
constexpr std::int64_t kMostSteps = 50;
constexpr double kEnoughSeconds = 1.0;  // of each measurement

double now() { return steady_clock().seconds(); }

// Seconds that a step takes at least, known without one; 0 = not known. A step cannot be broken
// off.
double least_step_seconds(const ArmRecord& arm, const run::Runtime& runtime) {
  const config::TrainConfig& train = arm.setup.experiment.train;
  // Elsewhere parts of a step may run faster than the product, or the product may not fit.
  if (!runtime.device().is_cpu() || runtime.precision() != config::Precision::kF32) return 0.0;
  if (!arm.flops.is_object() || !arm.flops.contains("training")) return 0.0;
  const auto tokens =
      static_cast<double>(train.lanes * train.segment * train.bptt_segments * train.accumulate);
  return tokens * arm.flops.at("training").get<double>() /
         tensor::product_rate(runtime.device(), runtime.precision());
}

// Sets the seconds of a step once the memory is full, unless one step takes too long.
void time_steps(train::Trainer& trainer, double most_seconds, ArmPlan& out) {
  const config::TrainConfig& train = trainer.experiment().train;
  const std::int64_t rows = trainer.runtime().stack().context_rows(memory::Phase::kTraining);
  const std::int64_t filling =
      std::min(rows / (train.segment * train.bptt_segments * train.accumulate) + 2, kMostFilling);
  const double begin = now();
  const auto seconds = [&] { return now() - begin; };
  const auto take_step = [&] { static_cast<void>(trainer.train_step()); };
  if (!trainer.is_finished()) take_step();
  out.least_step_seconds = seconds();
  out.is_timed = seconds() < most_seconds;
  if (!out.is_timed) return;
  for (std::int64_t i = 1; i < filling && !trainer.is_finished(); ++i) {
    if (seconds() > kEnoughSeconds) break;
    take_step();
  }
  const double filled = seconds();
  std::int64_t steps = 0;
  const auto is_enough = [&] {
    if (steps == 0) return false;
    if (steps >= kMostSteps || seconds() > most_seconds) return true;
    return steps >= kFewestSteps && seconds() - filled > kEnoughSeconds;
  };
  for (; !trainer.is_finished() && !is_enough(); ++steps) take_step();
  // A training of so few steps is over.
  out.step_seconds = steps == 0
                         ? filled / static_cast<double>(std::max<std::int64_t>(1, trainer.step()))
                         : (seconds() - filled) / static_cast<double>(steps);
}

struct TimedEvaluation {
  double seconds = 0.0;  // a segment
  double state_bytes = 0.0;
};

TimedEvaluation time_evaluation(train::Trainer& trainer, data::Split split, std::int64_t all) {
  TimedEvaluation out;
  for (std::int64_t segments = 1;; segments = std::min(4 * segments, all)) {
    const double start = now();
    const eval::Result result = trainer.evaluate_split(split, {.needs_targets = false}, segments);
    const double seconds = now() - start;
    out = {
        .seconds = seconds / static_cast<double>(segments),
        .state_bytes = static_cast<double>(result.state_bytes) / static_cast<double>(result.lanes)};
    if (segments >= all || seconds > kEnoughSeconds / 2) return out;
  }
}

// Steps that a run has done already.
std::int64_t done_steps(const fs::path& folder) {
  std::error_code ignored;
  if (!fs::exists(folder / "experiment.toml", ignored)) return 0;
  const std::vector<std::int64_t> steps = run::RunFolder::at(folder).checkpoints().steps();
  return steps.empty() ? 0 : steps.back();
}

// Sets the state's bytes, and the seconds of the evaluations at the end and of the learning curve.
void time_evaluations(train::Trainer& trainer, const ArmRecord& arm, const Record& record,
                      ArmPlan& out) {
  for (const data::Split split : record.splits) {
    const std::int64_t all = trainer.runtime().evaluation_segments(split);
    const TimedEvaluation timed = time_evaluation(trainer, split, all);
    out.state_bytes = timed.state_bytes;
    // Each rung of successive halving has an evaluation.
    const auto rungs = std::ranges::count_if(
        record.rungs, [&](const scores::Rung& rung) { return rung.steps <= out.steps; });
    double segments = static_cast<double>(all * std::max<std::int64_t>(1, rungs));
    if (split == data::Split::kValid && arm.curve.every > 0) {
      const auto points = (out.steps + arm.curve.every - 1) / arm.curve.every;
      segments += static_cast<double>(points * std::min(arm.curve.segments, all));
    }
    out.evaluation_seconds += timed.seconds * segments;
  }
}

ArmPlan plan_arm(const ArmRecord& arm, const Record& record, const Options& options,
                 const run::RuntimeOptions& runtime_options, double most_seconds) {
  train::TrainerOptions trainer_options;
  trainer_options.runtime = runtime_options;
  train::Trainer trainer(arm.setup.experiment, std::move(trainer_options));
  const run::Runtime& runtime = trainer.runtime();
  ArmPlan out{.name = arm.setup.name,
              .steps = arm.stop_at > 0 ? std::min(arm.stop_at, trainer.total_steps())
                                       : trainer.total_steps(),
              .training = run::training_footprint(runtime),
              .evaluation = run::evaluation_footprint(runtime)};
  out.least_step_seconds = least_step_seconds(arm, runtime);
  out.is_timed = out.least_step_seconds < most_seconds;
  if (out.is_timed) time_steps(trainer, most_seconds, out);
  if (out.is_timed) time_evaluations(trainer, arm, record, out);
  out.training_seconds = out.step_seconds * static_cast<double>(out.steps);
  out.disk_bytes = run_disk_bytes(runtime, record.splits, out.steps, trainer.state().bytes());
  for (const RunRecord& run : arm.runs) {
    const std::int64_t left =
        std::max<std::int64_t>(0, out.steps - done_steps(options.folder / run.folder));
    if (left == 0) continue;
    out.seconds_left += out.step_seconds * static_cast<double>(left) + out.evaluation_seconds;
  }
  return out;
}

}  // namespace

Plan make_plan(const Record& record, const Options& options, std::int64_t processes,
               plugin::PluginLoader& loader, const Measuring& measuring) {
  Plan out{.arms = {}, .processes = processes, .free_disk_bytes = free_disk(options.folder)};
  const config::Experiment& experiment = record.arms.front().setup.experiment;
  const auto dataset = std::make_shared<const data::Dataset>(experiment.data);
  double longest = 0.0;
  for (const ArmRecord& arm : record.arms) {
    if (measuring.on_arm) measuring.on_arm(out.arms.size());
    try {
      out.arms.push_back(plan_arm(arm, record, options,
                                  {.device = options.device,
                                   .dataset = dataset,
                                   .loader = {std::shared_ptr<void>(), &loader},
                                   .free_memory = options.free_memory},
                                  measuring.most_seconds));
    } catch (const Error& error) {
      throw error.with_context(arm.setup.name);
    }
    const ArmPlan& plan = out.arms.back();
    out.seconds += plan.seconds_left;
    if (plan.seconds_left > 0.0) {
      longest = std::max(longest, plan.training_seconds + plan.evaluation_seconds);
    }
    out.is_timed =
        out.is_timed && (plan.is_timed || std::ranges::all_of(arm.runs, &RunRecord::is_done));
    out.disk_bytes += disk_left(arm, plan.disk_bytes, options.folder);
  }
  // No run is done by two processes.
  out.seconds = std::max(out.seconds / static_cast<double>(processes), longest);
  return out;
}

Json to_json(const Plan& plan, const Record& record) {
  const auto if_timed = [](const auto& one, double value) {
    return one.is_timed ? Json(value) : Json(nullptr);
  };
  Json arms = Json::array();
  for (std::size_t i = 0; i < plan.arms.size(); ++i) {
    const ArmPlan& one = plan.arms[i];
    const ArmRecord& arm = record.arms[i];
    arms.push_back({{"name", one.name},
                    {"backbone_parameters", arm.backbone_parameters},
                    {"memory_parameters", arm.memory_parameters},
                    {"flops_per_token", arm.flops},
                    {"checks", scores::to_json(arm.checks)},
                    {"steps", one.steps},
                    {"state_bytes", if_timed(one, one.state_bytes)},
                    {"training_memory", run::to_json(one.training)},
                    {"evaluation_memory", run::to_json(one.evaluation)},
                    {"step_seconds", if_timed(one, one.step_seconds)},
                    {"training_seconds", if_timed(one, one.training_seconds)},
                    {"evaluation_seconds", if_timed(one, one.evaluation_seconds)},
                    {"seconds_left", if_timed(one, one.seconds_left)},
                    {"disk_bytes", one.disk_bytes},
                    {"runs", arm.runs.size()}});
  }
  return {
      {"format", "mneme-compare-dry-run"},
      {"command", record.command},
      {"arms", std::move(arms)},
      {"processes", plan.processes},
      {"seconds", if_timed(plan, plan.seconds)},
      {"disk_bytes", plan.disk_bytes},
      {"free_disk_bytes", plan.free_disk_bytes < 0 ? Json(nullptr) : Json(plan.free_disk_bytes)}};
}

}  // namespace mneme::compare
