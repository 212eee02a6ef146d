#include "host/run/stream_options.hpp"

#include "host/base/error.hpp"

namespace mneme::run {

data::StreamOptions training_options(const config::TrainConfig& train) {
  data::StreamOptions options;
  options.lanes = train.lanes;
  options.segment = train.segment;
  options.is_training = true;
  options.seed = train.seed;
  return options;
}

data::StreamOptions evaluation_options(const config::Experiment& experiment,
                                       const data::Dataset& dataset) {
  data::StreamOptions options;
  options.lanes = experiment.eval.lanes;
  options.segment = experiment.eval.segment;
  options.max_segments = experiment.eval.steps;
  options.epochs = dataset.is_endless() ? 0 : 1;
  // One evaluation set for all seeds: only data.seed chooses it.
  options.seed = 0;
  if (dataset.is_endless() && experiment.eval.steps == 0) {
    throw_usage({.where = "eval.steps",
                 .failed = "the task generates data without end",
                 .expected = "at least 1",
                 .got = "0"});
  }
  return options;
}

void check_valid_split(const config::Experiment& experiment, const data::Dataset& dataset) {
  if (!dataset.corpus(data::Split::kValid)) return;
  static_cast<void>(
      dataset.make_stream(data::Split::kValid, evaluation_options(experiment, dataset)));
}

}  // namespace mneme::run
