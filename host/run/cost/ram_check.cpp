#include "host/run/cost/ram_check.hpp"

#include <algorithm>
#include <exception>
#include <functional>
#include <optional>

#include "host/base/error.hpp"
#include "host/base/log.hpp"
#include "host/run/cost/reach.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::run {
namespace {

// Sizes of a model with its memory, from an outline. `lane_tokens`: the most tokens that a lane
// sees.
ModelSizes outline_sizes(const config::Experiment& experiment, const RuntimeOptions& options,
                         config::Precision precision, memory::Phase phase, std::int64_t lanes,
                         double lane_tokens) {
  // Plugins' log lines are dropped here; making the model logs them.
  const LogListener silent([](LogLevel, std::string_view) { return false; });
  backbone::ModelSetup setup =
      model_setup(experiment, options.dataset->vocabulary_size(), precision, c10::kMeta);
  const memory::Stack stack(experiment.memory, backbone::backbone_info(experiment.model, setup),
                            *options.loader);
  setup.replaced = stack.replaced_layers();
  const auto model = backbone::make_model(experiment.model, setup);
  ModelSizes sizes;
  sizes.replaced = setup.replaced;
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
  sizes.context_rows = reached_rows(stack.context_rows(phase), lane_tokens);
  sizes.rider_rows = reached_rows(stack.rider_rows(phase), lane_tokens);
  sizes.state_bytes = fresh_state_bytes(stack, phase, lanes);
  return sizes;
}

void check(const std::string& where, const RuntimeOptions& options,
           const std::function<Footprint()>& outline, bool has_force = true) {
  if (!options.free_memory) return;
  std::optional<Footprint> estimate;
  try {
    estimate = outline();
  } catch (const std::exception&) {
    return;  // making the model reports the same error, with the plugins' log lines
  }
  const std::optional<FreeMemory> free = options.free_memory();
  if (free) check_fits(where, *estimate, *free, has_force);
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
                    training_reach(train, *options.dataset)),
      is_cuda);
}

Footprint outline_evaluation(const config::Experiment& experiment, const RuntimeOptions& options,
                             const EvaluationExtents& extents) {
  const config::EvalConfig& eval = experiment.eval;
  const config::Precision precision =
      chosen_precision(options.precision.value_or(eval.precision), options.device);
  const std::int64_t lanes = extents.lanes > 0 ? extents.lanes : eval.lanes;
  const double tokens = extents.text > 0 ? static_cast<double>(extents.text)
                                         : evaluation_reach(eval, *options.dataset);
  const ModelSizes sizes =
      outline_sizes(experiment, options, precision, memory::Phase::kEvaluation, lanes, tokens);
  const bool is_cuda = options.device.is_cuda();
  Footprint out =
      evaluation_footprint(is_cuda ? without_scores(experiment) : experiment, sizes, precision,
                           lanes, extents.tokens > 0 ? extents.tokens : eval.segment, is_cuda);
  if (extents.generated.segment > 0) {
    out.uses.push_back(
        open_segments_part(experiment, precision, lanes, is_cuda, extents.generated, sizes));
  }
  return out;
}

void check_fits(const std::string& where, const Footprint& estimate, const FreeMemory& free,
                bool has_force) {
  if (estimate.total() <= free.bytes) return;
  throw_usage(
      {.where = where,
       .failed =
           str("there is not enough memory; the largest consumers of ", consumers_text(estimate)),
       .expected = str(human_bytes(static_cast<std::uint64_t>(estimate.total()))),
       .got = str(human_bytes(static_cast<std::uint64_t>(free.bytes)), " free (", free.source, ")"),
       .hint = str("lower ", estimate.largest().front().keys,
                   has_force ? "; with --force it is tried, and may fail or be killed by the system"
                             : "")});
}

void check_training_fits(const config::Experiment& experiment, const RuntimeOptions& options) {
  check("training", options, [&] { return outline_training(experiment, options); });
}

void check_evaluation_fits(const config::Experiment& experiment, const RuntimeOptions& options,
                           const EvaluationExtents& extents) {
  check(
      extents.is_trial ? "trial" : "evaluation", options,
      [&] { return outline_evaluation(experiment, options, extents); }, !extents.is_trial);
}

}  // namespace mneme::run
