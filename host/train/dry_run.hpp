// What can be said of a training without training: its plan (sizes, memory, schedule, data), and an
// experiment file's errors and defaults (experiment_check.cpp). Nothing is written.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "host/base/text.hpp"
#include "host/config/experiment.hpp"
#include "host/memory/stack/stack.hpp"
#include "host/optim/parameter_groups.hpp"
#include "host/plugin/loader.hpp"
#include "host/run/cost/flops.hpp"
#include "host/run/cost/footprint.hpp"
#include "host/run/runtime.hpp"
#include "host/train/windows.hpp"

namespace mneme::train {

// Numbers in the parameters of one part of the model: "embedding", "layers", "softmax" (what is
// tied counts with the embedding), or a tier, "memory.<index>.<plugin>".
struct ParameterPart {
  std::string name;
  std::int64_t count = 0;
};

struct SchedulePoint {
  std::int64_t step = 0;     // steps done before
  double lr = 0.0;           // train.lr by the schedule
  std::int64_t windows = 1;  // backward passes of that step
};

struct TrainingPlan {
  config::Experiment experiment;
  std::int64_t vocabulary = 0;
  std::string vocabulary_source;                      // for people: "the training data", "the task"
  std::vector<optim::TrainableParameter> parameters;  // on device meta: shapes without values
  std::vector<ParameterPart> backbone, memory;
  std::int64_t context_rows = 0;         // that the memory's contexts hold before a segment
  memory::ReplacedLayers replaced = {};  // layers whose attention a tier replaces
  std::vector<WindowedLayers> windows;   // of model.window
  run::Footprint estimate;
  // Absent when they could not be counted; then `flops_problem` says why.
  std::optional<run::FlopsPerToken> flops;
  std::string flops_problem;
  // The free memory of the device, for the printed plan; set by the caller.
  std::optional<FreeMemory> free;
  // Absent when epochs are asked for and the data are not there.
  std::optional<std::int64_t> steps;
  std::optional<double> epochs;  // that the steps take; absent without data or for data without end
  std::int64_t tokens_per_step = 0;  // at the first step: windows x bptt_segments x lanes x segment
  std::vector<SchedulePoint> schedule;
  Json data;  // Dataset::describe(); null when the files are not there

  [[nodiscard]] std::int64_t backbone_count() const;
  [[nodiscard]] std::int64_t memory_count() const;
};

// The memory of an experiment as a training would make it, on device meta: shapes without values.
// No data are needed. Errors: as Stack gives them.
[[nodiscard]] std::unique_ptr<memory::Stack> outline_memory(const config::Experiment& experiment,
                                                            plugin::PluginLoader& loader);

// Checks the experiment as a training would: data (when data.train is there), plugins, model,
// groups of parameters. Without the data the vocabulary must be known: data.vocabulary_size, a
// saved vocabulary, bytes, or a generated task. Errors as Trainer gives them; Error (kUsage) when
// the vocabulary is not known. What depends on the device is estimated for it; it need not be open.
[[nodiscard]] TrainingPlan plan_training(const config::Experiment& experiment,
                                         c10::Device device = c10::kCPU);
[[nodiscard]] Json to_json(const TrainingPlan& plan);

// --- Checking an experiment file and filling in every default ---

// An experiment file as the command line names it.
struct ExperimentSource {
  std::filesystem::path path;
  std::optional<std::filesystem::path> memory = std::nullopt;  // in place of its [memory]
  std::vector<config::Override> overrides = {};
};

struct ExperimentCheck {
  config::Experiment experiment;     // every default filled in, the plugins' options too
  std::vector<std::string> checked;  // "the keys of ...", a line each
};

// Before anything is read or computed: each tier's plugin loads, takes its options and weights and
// makes the tier. Logs nothing. Errors: as Stack gives them.
void check_memory(const config::Experiment& experiment, plugin::PluginLoader& loader);
// The same, and that the data files are there, that segments hold a task's answer and have positions;
// no data are read. Error (kUsage) with every problem of data and segments, or those of check_memory.
void check_inputs(const config::Experiment& experiment, plugin::PluginLoader& loader);

// Checks the keys, each tier's plugin with its options and weights, what check_inputs does, then that
// the plugins make their tiers, and groups give Muon no vector of a tier; no data are read.
// Error (kUsage) with every problem.
[[nodiscard]] ExperimentCheck check_experiment(const ExperimentSource& source);

// The experiment with every default filled in, the plugins' options too. Errors: as
// parse_experiment, PluginLoader and config::resolve_options give them.
[[nodiscard]] config::Experiment resolve_experiment(const ExperimentSource& source);

}  // namespace mneme::train
