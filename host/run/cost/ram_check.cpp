#include "host/run/cost/ram_check.hpp"

#include <algorithm>
#include <exception>
#include <functional>
#include <limits>
#include <optional>

#include "host/base/error.hpp"
#include "host/base/log.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::run {
namespace {

constexpr double kNoBound = std::numeric_limits<double>::infinity();

// Sizes of a model with its memory, from an outline. `lane_tokens`: the most tokens that a lane
// sees.
ModelSizes outline_sizes(const config::Experiment& experiment, const RuntimeOptions& options,
                         config::Precision precision, memory::Phase phase, std::int64_t lanes,
                         double lane_tokens) {
  // Plugins' log lines are dropped here; making the model logs them.
  const LogListener silent([](LogLevel, std::string_view) { return false; });
  const backbone::ModelSetup setup =
      model_setup(experiment, options.dataset->vocabulary_size(), precision, c10::kMeta);
  const memory::Stack stack(experiment.memory, backbone::backbone_info(experiment.model, setup),
                            *options.loader);
  const auto model = backbone::make_model(experiment.model, setup);
  ModelSizes sizes;
  sizes.vocabulary = setup.vocabulary;
  const auto count = [&](std::int64_t& sum, const at::Tensor& parameter) {
    sum += parameter.numel();
    sizes.largest_parameter = std::max(sizes.largest_parameter, parameter.numel());
  };
  for (const auto& parameter : model->parameters()) {
    count(sizes.backbone_parameters, parameter.tensor);
  }
  for (const auto& parameter : stack.parameters()) {
    count(sizes.memory_parameters, parameter.tensor);
  }
  const auto bounded = [&](std::int64_t rows) {
    return lane_tokens < static_cast<double>(rows) ? static_cast<std::int64_t>(lane_tokens) : rows;
  };
  sizes.context_rows = bounded(stack.context_rows(phase));
  sizes.rider_rows = bounded(stack.rider_rows(phase));
  sizes.state_bytes = fresh_state_bytes(stack, phase, lanes);
  return sizes;
}

// Of the longest split that was read, shared out to the lanes.
double corpus_tokens(const data::Dataset& dataset, std::int64_t lanes) {
  std::int64_t most = 0;
  for (const data::Split split : data::kSplits) {
    if (const auto corpus = dataset.corpus(split)) most = std::max(most, corpus->size());
  }
  return most == 0 ? kNoBound : static_cast<double>(most) / static_cast<double>(lanes) + 1.0;
}

double training_tokens(const config::TrainConfig& train) {
  if (train.steps == 0) return kNoBound;
  std::int64_t windows = train.accumulate;
  for (const auto& from : train.accumulate_from) windows = std::max(windows, from.segments);
  return static_cast<double>(train.steps) * static_cast<double>(windows) *
         static_cast<double>(train.bptt_segments * train.segment);
}

double evaluation_tokens(const config::EvalConfig& eval, const data::Dataset& dataset,
                         const EvaluationExtents& extents) {
  if (extents.text > 0) return static_cast<double>(extents.text);
  const double all = corpus_tokens(dataset, eval.lanes);
  if (eval.steps == 0) return all;
  return std::min(all, static_cast<double>(eval.steps) * static_cast<double>(eval.segment));
}

void check(const std::string& where, const RuntimeOptions& options,
           const std::function<Footprint()>& outline) {
  if (!options.free_memory) return;
  std::optional<Footprint> estimate;
  try {
    estimate = outline();
  } catch (const std::exception&) {
    return;  // making the model reports the same error, with the plugins' log lines
  }
  const std::optional<FreeMemory> free = options.free_memory();
  if (free) check_fits(where, *estimate, *free);
}

// With attention as a GPU's kernels compute it that keep no scores. What they cannot compute takes
// more memory, so the estimate is a lower bound.
config::Experiment without_scores(config::Experiment experiment) {
  config::ModelConfig& model = experiment.model;
  model.attention_dropout = 0.0;
  model.position = config::PositionScheme::kNone;
  if (model.attention_kernel == config::AttentionKernel::kOperations) model.attention_kernel = {};
  return experiment;
}

}  // namespace

Footprint outline_training(const config::Experiment& experiment, const RuntimeOptions& options) {
  const config::Experiment chosen = with_chosen_precision(experiment, options.device);
  const bool is_cuda = options.device.is_cuda();
  const config::TrainConfig& train = chosen.train;
  return training_footprint(
      is_cuda ? without_scores(chosen) : chosen,
      outline_sizes(chosen, options, train.precision, memory::Phase::kTraining, train.lanes,
                    training_tokens(train)),
      is_cuda);
}

Footprint outline_evaluation(const config::Experiment& experiment, const RuntimeOptions& options,
                             const EvaluationExtents& extents) {
  const config::EvalConfig& eval = experiment.eval;
  const config::Precision precision =
      chosen_precision(options.precision.value_or(eval.precision), options.device);
  const std::int64_t lanes = extents.lanes > 0 ? extents.lanes : eval.lanes;
  const ModelSizes sizes = outline_sizes(experiment, options, precision, memory::Phase::kEvaluation,
                                         lanes, evaluation_tokens(eval, *options.dataset, extents));
  const bool is_cuda = options.device.is_cuda();
  Footprint out =
      evaluation_footprint(is_cuda ? without_scores(experiment) : experiment, sizes, precision,
                           lanes, extents.tokens > 0 ? extents.tokens : eval.segment, is_cuda);
  if (extents.generated.segment > 0) {
    out.uses.push_back(
        open_segments_part(experiment, precision, lanes, is_cuda, extents.generated));
  }
  return out;
}

void check_fits(const std::string& where, const Footprint& estimate, const FreeMemory& free) {
  if (estimate.total() <= free.bytes) return;
  throw_usage(
      {.where = where,
       .failed =
           str("there is not enough memory; the largest consumers of ", consumers_text(estimate)),
       .expected = str(human_bytes(static_cast<std::uint64_t>(estimate.total()))),
       .got = str(human_bytes(static_cast<std::uint64_t>(free.bytes)), " free (", free.source, ")"),
       .hint = str("lower ", estimate.largest().front().keys,
                   "; with --force it is tried, and may fail or be killed by the system")});
}

void check_training_fits(const config::Experiment& experiment, const RuntimeOptions& options) {
  check("training", options, [&] { return outline_training(experiment, options); });
}

void check_evaluation_fits(const config::Experiment& experiment, const RuntimeOptions& options,
                           const EvaluationExtents& extents) {
  check("evaluation", options, [&] { return outline_evaluation(experiment, options, extents); });
}

}  // namespace mneme::run
