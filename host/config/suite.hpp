// A suite: a list of experiments that are compared with the same memories, `configs/suite/*.toml`.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "host/config/experiment.hpp"

namespace mneme::config {

// What a suite's table shows of an evaluation: the accuracy over all targets, or over those whose
// source lies outside the segment, which a model without memory can only guess, or the loss.
enum class Measure { kAccuracy, kOutsideAccuracy, kLoss };
constexpr auto words_of(Measure) { return std::array{"accuracy", "outside_accuracy", "loss"}; }

// A memory that is compared: an arm.
struct SuiteMemory {
  std::string name;                      // default: the file's name without ".toml"
  std::filesystem::path file;            // a memory file, absolute
  std::vector<Override> overrides = {};  // those of the suite, then those of the task
};

struct SuiteTask {
  std::string name;                      // default: the file's name without ".toml"
  std::filesystem::path experiment;      // absolute
  std::vector<Override> overrides = {};  // of the experiment, for all memories
  Measure measure = Measure::kAccuracy;
  Position measure_position = {};     // of the key, or of the task's table without it
  std::string measure_key = {};       // "task.0.measure"
  std::vector<SuiteMemory> memories;  // at least one, in the order of the suite; first = baseline
};

struct Suite {
  // Trainings of each memory on each task, from train.seed of its experiment, train.seed + 1, ...
  std::int64_t seeds = 3;
  std::vector<SuiteTask> tasks;  // at least one
};

// True for the text of a suite file: it has tables [[task]], or [[memory]] with a file, which no
// experiment has; also for [[tasks]], which is a slip.
[[nodiscard]] bool is_suite(const Value& root);

// Reads a suite file (docs/suites.md):
//
//   seeds = 3
//   [[memory]]                            # an arm of every task; the first is the baseline
//   name = "my_cache"                     # default: the file's name
//   file = "memory/my_cache.toml"         # relative to the suite
//   set = ["memory.tier.0.rows=64"]       # as --set, after the experiment is read
//   [[task]]
//   experiment = "needle.toml"
//   measure = "outside_accuracy"          # or "accuracy", or "loss"
//   set = ["train.steps=500"]             # for all memories
//   [[task.memory]]                       # further overrides of one arm, for this task
//   name = "my_cache"
//   set = ["memory.tier.0.rows=96"]
//
// Throws one Error (kUsage) with a line "file:line:column: key: ..." per problem: unknown or
// missing keys, values out of range, files that do not exist, names that are equal or cannot be a
// folder's, a memory of a task that the suite does not have, a `set` that is not KEY=VALUE. Error
// (kRun) when the file cannot be read. Experiments and memory files are not read.
[[nodiscard]] Suite read_suite(const std::filesystem::path& path);

// Once the task's experiment is read: Error (kUsage) "file:line:column: task.0.measure: ..." where
// its data do not have the measure. `has_sources`: whether their targets have a source.
void check_measure(const SuiteTask& task, Task data, bool has_sources);

}  // namespace mneme::config
