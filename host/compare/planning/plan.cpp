#include "host/compare/planning/plan.hpp"

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "host/base/error.hpp"
#include "host/base/progress.hpp"
#include "host/run/cost/memory_check.hpp"
#include "host/run/run_folder.hpp"
#include "host/train/trainer.hpp"

namespace mneme::compare {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kMostFilling = 16;  // steps before the timed ones
constexpr std::int64_t kFewestSteps = 3;   // timed
constexpr std::int64_t kMostSteps = 50;
constexpr double kEnoughSeconds = 1.0;  // of each measurement
// Of a target in a stored evaluation, and of what else a run's folder holds: the log, event files,
// the report's part.
constexpr std::int64_t kTargetBytes = 30;
constexpr std::int64_t kFolderBytes = std::int64_t{1} << 20;

double now() { return steady_clock().seconds(); }

// Seconds of a step once the memory is full.
double time_step(train::Trainer& trainer) {
  const config::TrainConfig& train = trainer.experiment().train;
  const std::int64_t rows = trainer.runtime().stack().context_rows(memory::Phase::kTraining);
  const std::int64_t filling =
      std::min(rows / (train.segment * train.bptt_segments * train.accumulate) + 2, kMostFilling);
  const double begin = now();
  for (std::int64_t i = 0; i < filling && !trainer.is_finished(); ++i) {
    static_cast<void>(trainer.train_step());
    if (i > 0 && now() - begin > kEnoughSeconds) break;
  }
  const double start = now();
  std::int64_t steps = 0;
  while (!trainer.is_finished() && steps < kMostSteps &&
         (steps < kFewestSteps || now() - start < kEnoughSeconds)) {
    static_cast<void>(trainer.train_step());
    ++steps;
  }
  // A training of so few steps is over.
  return steps == 0
             ? (start - begin) / static_cast<double>(std::max<std::int64_t>(1, trainer.step()))
             : (now() - start) / static_cast<double>(steps);
}

struct TimedEvaluation {
  double seconds = 0.0;  // a segment
  double state_bytes = 0.0;
};

TimedEvaluation time_evaluation(train::Trainer& trainer, data::Split split, std::int64_t all) {
  TimedEvaluation out;
  for (std::int64_t segments = std::min<std::int64_t>(4, all);;
       segments = std::min(4 * segments, all)) {
    const double start = now();
    const eval::Result result = trainer.evaluate(split, {}, segments);
    const double seconds = now() - start;
    out = {
        .seconds = seconds / static_cast<double>(segments),
        .state_bytes = static_cast<double>(result.state_bytes) / static_cast<double>(result.lanes)};
    if (segments >= all || seconds > kEnoughSeconds / 2) return out;
  }
}

// Checkpoints that are there at the end: of the last step, and the newest ones of train.save_every.
std::int64_t checkpoints_of(const config::TrainConfig& train, std::int64_t steps) {
  if (train.save_every == 0) return 1;
  return std::min(train.keep_checkpoints, (steps + train.save_every - 1) / train.save_every);
}

std::int64_t checkpoint_bytes(const train::Trainer& trainer, run::Runtime& runtime) {
  std::int64_t numbers = 0;
  for (const optim::TrainableParameter& parameter : runtime.parameters()) {
    numbers += parameter.tensor.numel() * (parameter.is_frozen ? 1 : 3);  // two moments
  }
  const std::int64_t width = runtime.precision() == config::Precision::kF64 ? 8 : 4;
  return width * numbers + trainer.state().bytes();
}

// Steps that a run has done already.
std::int64_t done_steps(const fs::path& folder) {
  std::error_code ignored;
  if (!fs::exists(folder / "experiment.toml", ignored)) return 0;
  const std::vector<std::int64_t> steps = run::RunFolder::at(folder).checkpoints().steps();
  return steps.empty() ? 0 : steps.back();
}

ArmPlan plan_arm(const ArmRecord& arm, const Record& record, const Options& options,
                 const run::RuntimeOptions& runtime_options) {
  const config::Experiment& experiment = arm.setup.experiment;
  train::TrainerOptions trainer_options;
  trainer_options.runtime = runtime_options;
  train::Trainer trainer(experiment, std::move(trainer_options));
  run::Runtime& runtime = trainer.runtime();
  ArmPlan out{.name = arm.setup.name,
              .steps = trainer.total_steps(),
              .training = run::training_footprint(runtime),
              .evaluation = run::evaluation_footprint(runtime)};
  out.step_seconds = time_step(trainer);
  out.training_seconds = out.step_seconds * static_cast<double>(out.steps);
  const config::TrainConfig& train = experiment.train;
  std::int64_t targets = 0;
  for (const data::Split split : record.splits) {
    const std::int64_t all = runtime.evaluation_segments(split);
    const TimedEvaluation timed = time_evaluation(trainer, split, all);
    out.state_bytes = timed.state_bytes;
    double segments = static_cast<double>(all);
    // The training evaluates the valid split at its end.
    if (split == data::Split::kValid && arm.curve.every > 0) {
      const auto points = (out.steps + arm.curve.every - 1) / arm.curve.every;
      segments += static_cast<double>(points * std::min(arm.curve.segments, all));
    }
    out.evaluation_seconds += timed.seconds * segments;
    targets += all * experiment.eval.lanes * experiment.eval.segment;
  }
  out.disk_bytes = checkpoints_of(train, out.steps) * checkpoint_bytes(trainer, runtime) +
                   targets * kTargetBytes + kFolderBytes;
  for (const RunRecord& run : arm.runs) {
    const std::int64_t left =
        std::max<std::int64_t>(0, out.steps - done_steps(options.folder / run.folder));
    if (left == 0) continue;
    out.seconds_left += out.step_seconds * static_cast<double>(left) + out.evaluation_seconds;
  }
  return out;
}

// Free bytes where a folder is, or will be.
std::int64_t free_disk(fs::path folder) {
  std::error_code code;
  folder = fs::absolute(folder, code);
  while (!fs::exists(folder, code) && folder.has_relative_path()) folder = folder.parent_path();
  const fs::space_info space = fs::space(folder, code);
  return code ? -1 : static_cast<std::int64_t>(space.available);
}

}  // namespace

Plan make_plan(const Record& record, const Options& options, std::int64_t processes,
               plugin::PluginLoader& loader) {
  Plan out{.arms = {}, .processes = processes, .free_disk_bytes = free_disk(options.folder)};
  const config::Experiment& experiment = record.arms.front().setup.experiment;
  const auto dataset = std::make_shared<const data::Dataset>(experiment.data);
  double longest = 0.0;
  for (const ArmRecord& arm : record.arms) {
    try {
      out.arms.push_back(plan_arm(arm, record, options,
                                  {.device = options.device,
                                   .dataset = dataset,
                                   .loader = {std::shared_ptr<void>(), &loader},
                                   .free_memory = options.free_memory}));
    } catch (const Error& error) {
      throw error.with_context(arm.setup.name);
    }
    const ArmPlan& plan = out.arms.back();
    out.seconds += plan.seconds_left;
    if (plan.seconds_left > 0.0) {
      longest = std::max(longest, plan.training_seconds + plan.evaluation_seconds);
    }
    out.disk_bytes += plan.disk_bytes * static_cast<std::int64_t>(arm.runs.size());
  }
  // No run is done by two processes.
  out.seconds = std::max(out.seconds / static_cast<double>(processes), longest);
  return out;
}

Json to_json(const Plan& plan, const Record& record) {
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
                    {"state_bytes", one.state_bytes},
                    {"training_memory", run::to_json(one.training)},
                    {"evaluation_memory", run::to_json(one.evaluation)},
                    {"step_seconds", one.step_seconds},
                    {"training_seconds", one.training_seconds},
                    {"evaluation_seconds", one.evaluation_seconds},
                    {"seconds_left", one.seconds_left},
                    {"disk_bytes", one.disk_bytes},
                    {"runs", arm.runs.size()}});
  }
  return {
      {"format", "mneme-compare-dry-run"},
      {"command", record.command},
      {"arms", std::move(arms)},
      {"processes", plan.processes},
      {"seconds", plan.seconds},
      {"disk_bytes", plan.disk_bytes},
      {"free_disk_bytes", plan.free_disk_bytes < 0 ? Json(nullptr) : Json(plan.free_disk_bytes)}};
}

}  // namespace mneme::compare
