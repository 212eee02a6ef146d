#include "host/run/runtime.hpp"

#include <algorithm>
#include <mutex>
#include <utility>

#include "host/backbone/attention/kernels/choice.hpp"
#include "host/base/error.hpp"
#include "host/base/log.hpp"
#include "host/memory/abi/groups.hpp"
#include "host/memory/tier/tier.hpp"
#include "host/optim/parameter_groups.hpp"
#include "host/run/cost/footprint.hpp"
#include "host/tensor/dense_product.hpp"
#include "host/tensor/device.hpp"
#include "host/tensor/device_memory.hpp"
#include "host/tensor/torch.hpp"

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
  setup.recomputes = experiment.train.recompute;
  return setup;
}

namespace {

std::int64_t count_numbers(const std::vector<optim::TrainableParameter>& parameters,
                           std::size_t from, std::size_t to) {
  std::int64_t count = 0;
  for (std::size_t i = from; i < to; ++i) count += parameters[i].tensor.numel();
  return count;
}

// Of a GPU, whose capability may not be known (0).
bool has_fast_bf16(std::int64_t capability) {
  return capability == 0 || capability >= tensor::kBf16Capability;
}

// Warns once a process: evaluations have runtimes of their own.
void warn_of_slow_bf16(config::Precision precision, c10::Device device) {
  static std::once_flag once;
  const std::int64_t capability = device.is_cuda() ? tensor::compute_capability(device) : 0;
  const bool has_units = device.is_cuda() ? has_fast_bf16(capability) : tensor::has_bf16_units();
  if (!tensor::is_slow_bf16(precision, device, has_units)) return;
  std::call_once(once, [&] {
    log_warning(device.is_cuda() ? tensor::slow_bf16_text_of_gpu(capability)
                                 : tensor::slow_bf16_text(tensor::bf16_time_ratio()));
  });
}

void check_attention(const config::Experiment& experiment, config::Precision precision,
                     c10::Device device) {
  const at::ScalarType compute = precision == config::Precision::kBf16  ? at::kBFloat16
                                 : precision == config::Precision::kF64 ? at::kDouble
                                                                        : at::kFloat;
  backbone::check_attention_kernel(experiment.model, experiment.data.masks_documents(), compute,
                                   backbone::attention_device(device));
}

}  // namespace

void check_documents(const config::DataConfig& data, const memory::Stack& stack) {
  if (data.masks_documents()) stack.require_documents();
}

config::Precision chosen_precision(config::Precision precision, c10::Device device) {
  return chosen_precision(precision, device,
                          device.is_cuda() ? tensor::compute_capability(device) : 0);
}

config::Precision chosen_precision(config::Precision precision, c10::Device device,
                                   std::int64_t capability) {
  if (precision != config::Precision::kAuto) return precision;
  const bool is_fast = device.is_cpu() ? tensor::has_bf16_units() : has_fast_bf16(capability);
  return is_fast ? config::Precision::kBf16 : config::Precision::kF32;
}

config::Experiment with_chosen_precision(config::Experiment experiment, c10::Device device) {
  experiment.train.precision = chosen_precision(experiment.train.precision, device);
  experiment.eval.precision = chosen_precision(experiment.eval.precision, device);
  return experiment;
}

Runtime::Runtime(const config::Experiment& experiment, const RuntimeOptions& options)
    : experiment_(with_chosen_precision(experiment, options.device)),
      device_(options.device),
      precision_(chosen_precision(options.precision.value_or(experiment_.train.precision),
                                  options.device)),
      dataset_(options.dataset),
      loader_(options.loader) {
  warn_of_slow_bf16(precision_, device_);
  if (options.computes) check_attention(experiment_, precision_, device_);
  if (!dataset_) dataset_ = std::make_shared<const data::Dataset>(experiment_.data);
  if (!loader_) loader_ = std::make_shared<plugin::PluginLoader>(memory::make_loader());
  backbone::ModelSetup setup =
      model_setup(experiment_, dataset_->vocabulary_size(), precision_, device_);
  setup.draws_parameters = !options.weights_follow;
  stack_ = std::make_unique<memory::Stack>(
      experiment_.memory, backbone::backbone_info(experiment_.model, setup), *loader_);
  setup.replaced = stack_->replaced_layers();
  check_documents(experiment_.data, *stack_);
  model_ = backbone::make_model(experiment_.model, setup);
  collect_parameters();
  tensor::fit_threads(flops_of_largest_product());
}

double Runtime::flops_of_largest_product() const {
  std::int64_t largest = 0;
  for (const optim::TrainableParameter& parameter : parameters_) {
    if (parameter.tensor.dim() > 1) largest = std::max(largest, parameter.tensor.numel());
  }
  const std::int64_t rows = std::max(experiment_.train.lanes * experiment_.train.segment,
                                     experiment_.eval.lanes * experiment_.eval.segment);
  return 2.0 * static_cast<double>(rows) * static_cast<double>(largest);
}

void Runtime::collect_parameters() {
  parameters_ =
      optim::group_parameters(experiment_.train, model_->parameters(), stack_->parameters());
  for (const optim::TrainableParameter& parameter : parameters_) {
    if (parameter.is_frozen) at::Tensor(parameter.tensor).set_requires_grad(false);
  }
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

void Runtime::weights_changed(bool by_optimizer) {
  stack_->weights_changed();
  model_->weights_changed(by_optimizer);
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

eval::Result Runtime::evaluate_split(data::Split split, eval::Options options,
                                     std::int64_t segments) {
  data::StreamOptions cut = evaluation_options(experiment_, *dataset_);
  if (segments > 0) {
    cut.max_segments = cut.max_segments == 0 ? segments : std::min(segments, cut.max_segments);
  }
  const auto stream = dataset_->make_stream(split, cut);
  options.lanes = experiment_.eval.lanes;
  options.protocol = eval::protocol_of(*dataset_, split, experiment_);
  options.protocol.targets = stream->targets_per_epoch();
  options.corpus = dataset_->corpus(split);
  options.questions = dataset_->questions(split);
  options.training_counts = dataset_->training_counts();
  try {
    return eval::evaluate_stream(*model_, *stack_, *stream, options);
  } catch (const std::exception& error) {
    if (!is_out_of_memory(error)) throw;
    throw_out_of_memory(str("evaluation of ", data::to_word(split)), evaluation_footprint(*this),
                        error, tensor::free_device_memory(device()));
  }
}

std::int64_t Runtime::evaluation_segments(data::Split split) const {
  const data::StreamOptions options = evaluation_options(experiment_, *dataset_);
  const std::int64_t all = dataset_->make_stream(split, options)->segments_per_epoch();
  if (options.max_segments == 0) return all;
  return all == 0 ? options.max_segments : std::min(all, options.max_segments);
}

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
  if (!dataset.corpus(data::Split::kValid) && !dataset.questions(data::Split::kValid)) return;
  static_cast<void>(
      dataset.make_stream(data::Split::kValid, evaluation_options(experiment, dataset)));
}

// --- Swapping the memory of a model (docs/design.md, "Loading and swapping") ---

namespace {

// The present memory, as a source of trained values.
TrainedMemory trained_by(const memory::Stack& stack) {
  const auto parameter = [&stack](const std::string& name) {
    for (const memory::TierParameter& one : stack.parameters()) {
      if (one.name == name) return one.tensor.detach();
    }
    return at::Tensor();
  };
  return {parameter, stack.trained_options()};
}

// "" when the value fits the parameter.
std::string misfit(const memory::TierParameter& parameter, const at::Tensor& value,
                   const std::vector<plugin::OptionChange>& changes) {
  for (const plugin::OptionChange& change : changes) {
    if (parameter.tier == change.tier) return change.text();
  }
  if (!value.defined()) return "no parameter has this name";
  if (value.sizes() == parameter.tensor.sizes()) return "";
  return str("shape ", list_text(value.sizes().vec()), " in place of ",
             list_text(parameter.tensor.sizes().vec()));
}

// Copies what fits into the new memory's parameters and draws the others, which it returns. Throws
// before anything is copied when `policy` forbids that there are others.
std::vector<std::string> carry_parameters(memory::Stack& next, const TrainedMemory& trained,
                                          config::Carry policy) {
  const auto changes = next.changed_options(trained.options);
  if (policy == config::Carry::kRefuse && !changes.empty()) {
    plugin::throw_changed_options("memory", changes);
  }
  std::vector<std::pair<at::Tensor, at::Tensor>> copies;
  std::vector<std::string> reset, fresh;
  for (const memory::TierParameter& parameter : next.parameters()) {
    const at::Tensor value = trained.parameter(parameter.name);
    const std::string reason = misfit(parameter, value, changes);
    if (reason.empty()) {
      copies.emplace_back(parameter.tensor, value);
    } else {
      reset.push_back(str(parameter.name, ": ", reason));
      fresh.push_back(parameter.name);
    }
  }
  if (policy == config::Carry::kRefuse && !reset.empty()) {
    throw_usage({.where = "memory",
                 .failed = str("parameters of the new memory have no trained values:\n  ",
                               join(reset, "\n  "), "\n"),
                 .hint = "memory.carry = \"reset\" gives them initial values"});
  }
  const at::NoGradGuard no_grad;
  for (auto& [to, from] : copies) to.copy_(from);
  next.draw_parameters(fresh);
  return reset;
}

// The model's layers have the parameters that the present memory leaves them. Errors: Error(kUsage).
void check_replaced_layers(const memory::Stack& present, const memory::Stack& next) {
  const memory::ReplacedLayers before = present.replaced_layers(), after = next.replaced_layers();
  for (std::int64_t layer = 0; layer < present.backbone().layers; ++layer) {
    const auto a = before.find(layer), b = after.find(layer);
    const bool had = a != before.end(), has = b != after.end();
    if (had == has && (!had || a->second == b->second)) continue;
    const auto text = [&](const memory::Stack& stack) -> std::string {
      const memory::Tier* const tier = stack.replacing_tier(layer);
      return tier == nullptr ? "the layer's attention"
                             : str("tier ", tier->name(), " in place of the attention");
    };
    throw_usage({.where = "memory",
                 .failed = str("the new memory needs other weights of the model in layer ", layer),
                 .expected = text(present),
                 .got = text(next),
                 .hint = "train a run with this memory: what replaces the attention, and its "
                         "projections, is a part of the model"});
  }
}

}  // namespace

MemorySwap Runtime::swap_memory(const config::MemoryConfig& memory,
                                const std::optional<TrainedMemory>& trained) {
  config::Experiment experiment = config::with_memory(experiment_, memory);
  memory::BackboneInfo backbone = stack_->backbone();
  backbone.draws_parameters = false;  // values are carried, or drawn where there are none
  auto next = std::make_unique<memory::Stack>(memory, backbone, *loader_);
  check_replaced_layers(*stack_, *next);
  check_documents(experiment.data, *next);
  MemorySwap swap;
  swap.reset = carry_parameters(*next, trained ? *trained : trained_by(*stack_), memory.carry);
  auto parameters =
      optim::group_parameters(experiment.train, model_->parameters(), next->parameters());
  next->succeed(*stack_);

  // Nothing fails from here on.
  experiment_ = std::move(experiment);
  parameters_ = std::move(parameters);
  std::swap(stack_, next);
  model_->weights_changed();
  swap.retired = std::move(next);
  return swap;
}

void Runtime::return_to(MemorySwap swap, const config::MemoryConfig& memory) {
  config::Experiment experiment = config::with_memory(experiment_, memory);
  auto parameters =
      optim::group_parameters(experiment.train, model_->parameters(), swap.retired->parameters());
  swap.retired->succeed(*stack_);

  // Nothing fails from here on.
  experiment_ = std::move(experiment);
  parameters_ = std::move(parameters);
  stack_ = std::move(swap.retired);
  model_->weights_changed();
}

}  // namespace mneme::run
