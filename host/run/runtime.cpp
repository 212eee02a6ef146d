#include "host/memory/host_groups.hpp"
#include "host/run/runtime.hpp"

#include <algorithm>
#include <mutex>

#include "host/base/error.hpp"
#include "host/base/log.hpp"
#include "host/tensor/torch.hpp"
#include "host/tensor/bf16.hpp"
#include "host/run/footprint/memory_estimate.hpp"
#include "host/run/stream_options.hpp"

namespace mneme::run {
backbone::ModelSetup model_setup(const config::Experiment& experiment, std::int64_t vocabulary,
                                 config::Precision precision, c10::Device device) {
  backbone::ModelSetup setup;
  setup.vocabulary = vocabulary;
  setup.train_segment = experiment.train.segment;
  setup.eval_segment = experiment.eval.segment;
  setup.dtype = precision == config::Precision::kF64 ? at::kDouble : at::kFloat;
  setup.bf16_autocast = precision == config::Precision::kBf16;
  setup.device = device;
  setup.seed = experiment.train.seed;
  setup.bptt_segments = experiment.train.bptt_segments;
  return setup;
}

namespace {

std::int64_t count_numbers(const std::vector<optim::TrainableParameter>& parameters, std::size_t from,
                           std::size_t to) {
  std::int64_t count = 0;
  for (std::size_t i = from; i < to; ++i) count += parameters[i].tensor.numel();
  return count;
}

// Warns once a process: evaluations have runtimes of their own.
void warn_of_slow_bf16(config::Precision precision, c10::Device device) {
  static std::once_flag once;
  const std::string text = tensor::slow_bf16_text(precision, device, tensor::has_bf16_units());
  if (!text.empty()) std::call_once(once, [&] { log_warning(text); });
}

}  // namespace

Runtime::Runtime(const config::Experiment& experiment, const RuntimeOptions& options)
    : experiment_(experiment),
      device_(options.device),
      precision_(options.precision.value_or(experiment.train.precision)),
      dataset_(options.dataset),
      loader_(options.loader) {
  warn_of_slow_bf16(precision_, device_);
  if (!dataset_) dataset_ = std::make_shared<const data::Dataset>(experiment_.data);
  if (!loader_) loader_ = std::make_shared<plugin::PluginLoader>(memory::find_group);
  backbone::ModelSetup setup =
      model_setup(experiment_, dataset_->vocabulary_size(), precision_, device_);
  setup.draws_parameters = !options.weights_follow;
  stack_ = std::make_unique<memory::Stack>(
      experiment_.memory, backbone::backbone_info(experiment_.model, setup), *loader_);
  model_ = backbone::make_model(experiment_.model, setup);
  collect_parameters();
}

void Runtime::collect_parameters() {
  parameters_ = optim::group_parameters(experiment_.train, model_->parameters(), stack_->parameters());
}

std::int64_t Runtime::backbone_parameter_count() const {
  return count_numbers(parameters_, 0, model_->parameters().size());
}

std::int64_t Runtime::memory_parameter_count() const {
  return count_numbers(parameters_, model_->parameters().size(), parameters_.size());
}

void Runtime::draw_parameters(const std::vector<std::string>& names) {
  if (names.empty()) return;
  stack_->draw_parameters(names);
  weights_changed();
}

void Runtime::weights_changed() {
  stack_->weights_changed();
  model_->weights_changed();
}

void Runtime::copy_parameters(const Runtime& other) {
  const at::NoGradGuard no_grad;
  if (parameters_.size() != other.parameters_.size()) {
    throw_run({.where = "parameters",
               .failed = "the runs have different numbers of parameters",
               .expected = str(parameters_.size()),
               .got = str(other.parameters_.size())});
  }
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const optim::TrainableParameter& from = other.parameters_[i];
    if (from.name != parameters_[i].name || from.tensor.sizes() != parameters_[i].tensor.sizes()) {
      throw_run({.where = "parameters",
                 .failed = "the runs have different parameters",
                 .expected = parameters_[i].name,
                 .got = from.name});
    }
  }
  const auto changes = stack_->changed_options(other.stack_->trained_options());
  if (!changes.empty()) plugin::throw_changed_options("parameters", changes);
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    parameters_[i].tensor.copy_(other.parameters_[i].tensor);
  }
  weights_changed();
}

eval::Result Runtime::evaluate(data::Split split, eval::Options options) {
  const auto stream = dataset_->make_stream(split, evaluation_options(experiment_, *dataset_));
  options.lanes = experiment_.eval.lanes;
  options.protocol = eval::protocol_of(*dataset_, split, experiment_);
  options.corpus = dataset_->corpus(split);
  options.training_counts = dataset_->training_counts();
  try {
    return eval::evaluate(*model_, *stack_, *stream, options);
  } catch (const std::exception& error) {
    if (!is_out_of_memory(error)) throw;
    throw_out_of_memory(str("evaluation of ", data::to_word(split)), estimate_evaluation(*this),
                        error);
  }
}

std::int64_t Runtime::evaluation_segments(data::Split split) const {
  const data::StreamOptions options = evaluation_options(experiment_, *dataset_);
  const std::int64_t all = dataset_->make_stream(split, options)->segments_per_epoch();
  if (options.max_segments == 0) return all;
  return all == 0 ? options.max_segments : std::min(all, options.max_segments);
}

}  // namespace mneme::run
