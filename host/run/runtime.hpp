// An experiment ready to run: data, memory and backbone on a device.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "host/backbone/model.hpp"
#include "host/base/process/process.hpp"
#include "host/config/experiment.hpp"
#include "host/data/dataset.hpp"
#include "host/eval/evaluator.hpp"
#include "host/memory/stack/stack.hpp"
#include "host/optim/parameter_groups.hpp"
#include "host/plugin/loader.hpp"

namespace mneme::run {

struct RuntimeOptions {
  c10::Device device = c10::kCPU;
  // Default train.precision; "auto" is chosen for the device.
  std::optional<config::Precision> precision = std::nullopt;
  // Shared between runs; default: read what the experiment names.
  std::shared_ptr<const data::Dataset> dataset = nullptr;
  // Shared between runs, so that each plugin is mapped once; default: a loader of its own.
  std::shared_ptr<plugin::PluginLoader> loader = nullptr;
  // The weights will be loaded: none are drawn, every parameter is NaN until
  // Checkpoint::load_weights, load_initial_weights or copy_parameters fill it. The first two draw
  // what their source lacks.
  bool weights_follow = false;
  // False: weights are read and written alone, so that model.attention_kernel may name a kernel that
  // the device lacks.
  bool computes = true;
  // Source of the free memory; Trainer and Sweep refuse a model that is estimated to need more
  // (ram_check.hpp). Empty: nothing is checked.
  FreeMemorySource free_memory = nullptr;
};

// Refuses a memory that does not know the documents of its rows where data.reset = "mask" needs them.
// Errors: Error(kUsage), which names the tier.
void check_documents(const config::DataConfig& data, const memory::Stack& stack);

// The precision that a model computes in: for "auto" bf16 on GPUs and processors that have
// instructions for it, f32 elsewhere; any other as it is.
[[nodiscard]] config::Precision chosen_precision(config::Precision precision, c10::Device device);
// The same for a GPU of this compute capability; 0 = not known, which counts as a new one.
[[nodiscard]] config::Precision chosen_precision(config::Precision precision, c10::Device device,
                                                 std::int64_t capability);
// An experiment without "auto", for training and for evaluation. Runs keep this one.
[[nodiscard]] config::Experiment with_chosen_precision(config::Experiment experiment,
                                                       c10::Device device);

// Gives a parameter's value by its name ("memory.<tier>..."), or an undefined tensor.
using ParameterSource = std::function<at::Tensor(const std::string& name)>;

// A memory whose trained parameters another one takes over.
struct TrainedMemory {
  ParameterSource parameter;
  plugin::TierOptions options = {};  // with which they were trained
};

// The result of a swap.
struct MemorySwap {
  // The replaced memory. Its states are valid while it lives; Stack::carry turns a saved one into a
  // state of the new memory.
  std::unique_ptr<memory::Stack> retired;
  std::vector<std::string> reset;  // parameters that keep their initial values: "<name>: reason"
};

// A file that the first weights came from.
struct WeightsSource {
  std::filesystem::path file;  // absolute
  std::string sha256;
  std::string pretrained = {};  // the text of the run's pretrained.json; "" = it gets none
};

// What the backbone needs to know of an experiment besides [model].
[[nodiscard]] backbone::ModelSetup model_setup(const config::Experiment& experiment,
                                               std::int64_t vocabulary, config::Precision precision,
                                               c10::Device device);

// One model with its memory. Initial backbone weights depend on train.seed and parameter names
// alone, never on the memory.
class Runtime {
 public:
  // Chooses the number of threads where the caller left it to the model (tensor::fit_threads).
  // Errors: Error (kUsage | kPlugin | kRun) as the data, the stack and the backbone give them;
  // kUsage for a kernel of attention that the device or the model lacks.
  Runtime(const config::Experiment& experiment, const RuntimeOptions& options);

  [[nodiscard]] const config::Experiment& experiment() const { return experiment_; }
  [[nodiscard]] c10::Device device() const { return device_; }
  [[nodiscard]] config::Precision precision() const { return precision_; }
  [[nodiscard]] const std::shared_ptr<const data::Dataset>& dataset() const { return dataset_; }
  [[nodiscard]] const std::shared_ptr<plugin::PluginLoader>& loader() const { return loader_; }
  backbone::Model& model() { return *model_; }
  [[nodiscard]] const backbone::Model& model() const { return *model_; }
  memory::Stack& stack() { return *stack_; }
  [[nodiscard]] const memory::Stack& stack() const { return *stack_; }

  // Backbone first, then tiers in stack order.
  [[nodiscard]] const std::vector<optim::TrainableParameter>& parameters() const {
    return parameters_;
  }
  // Numbers in the backbone's and in the tiers' parameters.
  [[nodiscard]] std::int64_t backbone_parameter_count() const;
  [[nodiscard]] std::int64_t memory_parameter_count() const;

  // Where the first weights came from; absent = drawn from train.seed. For run.json.
  [[nodiscard]] const std::optional<WeightsSource>& weights_source() const {
    return weights_source_;
  }
  void set_weights_source(WeightsSource source) { weights_source_ = std::move(source); }

  // Gives these parameters of the memory their first values (Stack::draw_parameters).
  void draw_parameters(const std::vector<std::string>& names);
  // Drops everything computed from older weights; called after every change of parameters.
  // by_optimizer: as backbone::ConvertedWeights::weights_changed.
  void weights_changed(bool by_optimizer = false);
  // Copies the other runtime's parameters, which must have the same names, shapes and trained
  // options.
  void copy_parameters(const Runtime& other);

  // Replaces the memory of the backbone, between segments (docs/design.md, "Loading and swapping"):
  // the new plugins are loaded and checked, instances and parameters are made, parameter values are
  // carried where names and shapes agree, and only then the old memory is replaced. Its libraries
  // stay mapped. Values come from `trained`; default: the present memory. What it lacks or has in
  // another shape, and all of a tier with other trained options, is refused, or with memory.carry =
  // "reset" keeps its initial value. Other parts of the experiment stay. Errors: Error (kUsage |
  // kPlugin | kRun) as the constructor gives them, Error (kUsage) listing the options and the
  // parameters that do not fit. After an error the old memory runs on, unchanged.
  MemorySwap swap_memory(const config::MemoryConfig& memory,
                         const std::optional<TrainedMemory>& trained = std::nullopt);
  // Undoes a swap: the memory that it retired, with its parameters as they were, replaces the
  // present one, which is destroyed. States of the retired memory are valid again. `memory` is that
  // memory's configuration.
  void return_to(MemorySwap swap, const config::MemoryConfig& memory);

  // Evaluates a split, or its first `segments` segments at most (0 = all): eval.segment, eval.lanes
  // and eval.steps are the experiment's, and lanes, protocol, corpus and training_counts of
  // `options` are set here. Error (kUsage) when the split has no data; Error (kRun | kDevice) when
  // memory runs out, naming the largest consumers and the keys to lower.
  eval::Result evaluate_split(data::Split split, eval::Options options = {},
                              std::int64_t segments = 0);
  // Segments of such an evaluation, for progress; 0 = not known.
  [[nodiscard]] std::int64_t evaluation_segments(data::Split split) const;

 private:
  void collect_parameters();
  // Operations of the product of the largest weight with all tokens of a segment, in training or in
  // evaluation, whichever has more of them.
  [[nodiscard]] double flops_of_largest_product() const;

  config::Experiment experiment_;
  c10::Device device_;
  config::Precision precision_;
  std::shared_ptr<const data::Dataset> dataset_;
  std::shared_ptr<plugin::PluginLoader> loader_;
  std::unique_ptr<memory::Stack> stack_;
  std::unique_ptr<backbone::Model> model_;
  std::vector<optim::TrainableParameter> parameters_;
  std::optional<WeightsSource> weights_source_;
};

// --- How an experiment cuts its data ---

// Of the training split: endless, by [train].
[[nodiscard]] data::StreamOptions training_options(const config::TrainConfig& train);
// Of an evaluation: one epoch, or eval.steps segments, by [eval]. Error (kUsage) when the task has
// no end and eval.steps gives none.
[[nodiscard]] data::StreamOptions evaluation_options(const config::Experiment& experiment,
                                                     const data::Dataset& dataset);

// Error (kUsage) when the valid split is a text that is too short for its lanes: checked before the
// training, not after it.
void check_valid_split(const config::Experiment& experiment, const data::Dataset& dataset);

}  // namespace mneme::run
