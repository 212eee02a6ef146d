// Refuses a model that does not fit into the free memory of its device before it is allocated: a
// system that runs out of RAM kills the process, and often others, and on a GPU a training would
// fail after its data were read.
#pragma once

#include <cstdint>
#include <string>

#include "host/base/process/process.hpp"
#include "host/config/experiment.hpp"
#include "host/run/cost/footprint.hpp"
#include "host/run/runtime.hpp"

namespace mneme::run {

// How much an evaluation or a generation handles at once.
struct EvaluationExtents {
  std::int64_t lanes = 0;   // 0 = eval.lanes
  std::int64_t tokens = 0;  // of a segment; 0 = eval.segment
  std::int64_t text = 0;    // that a lane sees at most; 0 = as the dataset and eval.steps say
  GeneratedTokens generated = {};
  bool is_trial = false;  // of plugins try, which cannot be forced
};

// Estimates from outlines (device meta: shapes without values). `options` need a dataset and a
// loader. A memory holds no more rows than a lane's tokens reach (reach.hpp). On a GPU, where kernels decide which
// scores of attention are kept, none count. Errors as Runtime gives them.
[[nodiscard]] Footprint outline_training(const config::Experiment& experiment,
                                         const RuntimeOptions& options);
[[nodiscard]] Footprint outline_evaluation(const config::Experiment& experiment,
                                           const RuntimeOptions& options,
                                           const EvaluationExtents& extents = {});

// Error (kUsage) with the three largest consumers and the keys to lower when the estimate is more
// than what is free. The estimate is a lower bound, so a model that is refused does not fit.
// has_force: the command has --force, which the hint names.
void check_fits(const std::string& where, const Footprint& estimate, const FreeMemory& free,
                bool has_force = true);

// Both together, when options.free_memory says something. What else is wrong with the experiment is
// left to Runtime.
void check_training_fits(const config::Experiment& experiment, const RuntimeOptions& options);
void check_evaluation_fits(const config::Experiment& experiment, const RuntimeOptions& options,
                           const EvaluationExtents& extents = {});

}  // namespace mneme::run
