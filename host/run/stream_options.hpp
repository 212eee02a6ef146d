// How an experiment cuts its data.
#pragma once

#include "host/config/experiment.hpp"
#include "host/data/dataset.hpp"

namespace mneme::run {

// Of the training split: endless, by [train].
[[nodiscard]] data::StreamOptions training_options(const config::TrainConfig& train);
// Of an evaluation: one epoch, or eval.steps segments, by [eval]. Error (kUsage) when the task has
// no end and eval.steps gives none.
[[nodiscard]] data::StreamOptions evaluation_options(const config::Experiment& experiment,
                                                     const data::Dataset& dataset);

// Error (kUsage) when the valid split is a text that is too short for its lanes: found out before
// the training, not after it.
void check_valid_split(const config::Experiment& experiment, const data::Dataset& dataset);

}  // namespace mneme::run
