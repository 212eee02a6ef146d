// What a comparison will cost, before a night is spent on it: sizes, memory, time and disk of every
// arm. Nothing is written.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "host/base/text.hpp"
#include "host/compare/runs.hpp"
#include "host/run/cost/footprint.hpp"

namespace mneme::compare {

// Of one run of an arm, unless a name says otherwise.
struct ArmPlan {
  std::string name;
  std::int64_t steps = 0;
  double state_bytes = 0.0;  // of a lane while evaluating, after the segments that were tried
  run::Footprint training;   // estimates of the peak of a process
  run::Footprint evaluation;
  // False where one step takes longer than a measurement may: the times, and state_bytes, are not
  // known.
  bool is_timed = true;
  double least_step_seconds = 0.0;  // of the first one, or by its number of operations
  double step_seconds = 0.0;        // measured
  double training_seconds = 0.0;    // of all steps
  double evaluation_seconds = 0.0;  // of the splits at the end, and of the learning curve
  std::int64_t disk_bytes = 0;      // checkpoints and stored evaluations that stay
  double seconds_left = 0.0;        // of all seeds, without the steps that were done before
};

struct Plan {
  std::vector<ArmPlan> arms;
  std::int64_t processes = 1;         // side by side
  bool is_timed = true;               // every arm that has something to do is
  double seconds = 0.0;               // until all runs are done
  std::int64_t disk_bytes = 0;        // that all runs will still write
  std::int64_t free_disk_bytes = -1;  // where the folder will be; -1 = not known
};

struct Measuring {
  // Of the steps of an arm; a step that runs then comes to its end. None is begun that would take
  // longer if all its operations were as fast as a matrix product.
  double most_seconds = 5.0;
  // Called before each arm is measured, with its place from 0.
  std::function<void(std::size_t arm)> on_arm = nullptr;
};

// Trains every arm for a few steps and evaluates a few segments, without a folder, on the options'
// device and with their threads: the first steps, which fill the memory, are not timed.
// `processes`: of all ranks. Errors as Trainer gives them, with the arm's name in front.
[[nodiscard]] Plan make_plan(const Record& record, const Options& options, std::int64_t processes,
                             plugin::PluginLoader& loader, const Measuring& measuring = {});
// With what the record knows of the arms: parameters, FLOPs, checks.
[[nodiscard]] Json to_json(const Plan& plan, const Record& record);

}  // namespace mneme::compare
