#include "host/run/checkpoint/checkpoint.hpp"

#include <algorithm>
#include <cstring>
#include <set>
#include <sstream>

#include "host/base/error.hpp"
#include "host/base/text.hpp"
#include "host/run/checkpoint/checkpoint_files.hpp"
#include "host/tensor/dtypes.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::run {
namespace {

std::string shape_text(const at::Tensor& tensor) { return list_text(tensor.sizes().vec()); }

// "" when the file has the tensor in this shape.
std::string difference(const SafetensorsFile& file, const std::string& name,
                       const at::Tensor& tensor) {
  const TensorView* const view = file.find(name);
  if (view == nullptr) return str(name, ": missing in the checkpoint");
  if (tensor.sizes() == at::IntArrayRef(view->shape)) return "";
  return str(name, ": expected ", shape_text(tensor), ", got ", list_text(view->shape));
}

// The settings of [model] that differ, a line each.
std::vector<std::string> setting_differences(const config::ModelConfig& expected,
                                             const config::ModelConfig& got) {
  const auto table_of = [](const config::ModelConfig& model) {
    config::Experiment experiment;
    experiment.model = model;
    experiment.model.attention_kernel = {};
    experiment.model.row_kernels = {};
    return *config::parse_toml(config::to_toml(experiment), "model").find("model");
  };
  const config::Value ours = table_of(expected), theirs = table_of(got);
  std::vector<std::string> lines;
  for (const config::Member& member : ours.members()) {
    const config::Value* const other = theirs.find(member.key);
    const std::string text = other == nullptr ? "nothing" : other->toml();
    if (text == member.value.toml()) continue;
    lines.push_back(
        str("[model] ", member.key, ": expected ", member.value.toml(), ", got ", text));
  }
  return lines;
}

// The settings, and after them a few of the parameters that do not fit because of them.
std::vector<std::string> with_first(std::vector<std::string> settings,
                                    const std::vector<std::string>& parameters) {
  constexpr std::size_t kShown = 3;
  const std::size_t shown = std::min(kShown, parameters.size());
  settings.insert(settings.end(), parameters.begin(), parameters.begin() + shown);
  if (parameters.size() > shown) {
    settings.push_back(str("and ", parameters.size() - shown, " more parameters"));
  }
  return settings;
}

// ": RUN/experiment.toml has it" of a run's checkpoint; "" of another one.
std::string experiment_beside(const std::filesystem::path& checkpoint) {
  const std::filesystem::path run =
      std::filesystem::absolute(checkpoint).parent_path().parent_path();
  const std::filesystem::path file = run / "experiment.toml";
  std::error_code ignored;
  return std::filesystem::exists(file, ignored) ? ": " + file.string() + " has it" : "";
}

// Of equal shapes. What need not be converted is copied from where the file is mapped.
void copy_into(const at::Tensor& to, const TensorView& from) {
  if (to.is_cpu() && to.is_contiguous() && tensor::to_dtype(to.scalar_type()) == from.dtype) {
    if (from.bytes > 0) std::memcpy(to.mutable_data_ptr(), from.data, from.bytes);
  } else {
    to.copy_(tensor::to_tensor(from));
  }
  release(from);
}

// on_tensor(name in a checkpoint, tensor) for those that the parameter has.
template <typename F>
void for_each_tensor(const optim::Optimizer::Moments& moments, F on_tensor) {
  for (const MomentTensor& one : kMomentTensors) {
    const at::Tensor& tensor = moments.*one.tensor;
    if (tensor.defined()) on_tensor(one.prefix + moments.name, tensor);
  }
}

void add_parameters(CheckedTensors& to, const Runtime& runtime) {
  for (const optim::TrainableParameter& one : runtime.parameters()) to.add(one.name, one.tensor);
}

CheckpointMetadata metadata_of(const Runtime& runtime) {
  CheckpointMetadata out{.experiment = runtime.experiment(),
                         .precision = std::string(config::to_word(runtime.precision())),
                         .plugins = runtime.stack().identities(),
                         .trained_options = runtime.stack().trained_options()};
  for (const auto& [layer, replaced] : runtime.stack().replaced_layers())
    out.replaced.push_back(layer);
  return out;
}

}  // namespace

void write_checkpoint(const std::filesystem::path& path, const Runtime& runtime,
                      const std::vector<optim::Optimizer::Moments>& all,
                      const memory::NamedState& state, const RunProgress& progress) {
  CheckedTensors tensors;
  add_parameters(tensors, runtime);
  for (const optim::Optimizer::Moments& moments : all) {
    for_each_tensor(moments, [&](const std::string& name, const at::Tensor& tensor) {
      tensors.add(name, tensor);
    });
  }
  for (const auto& [name, tensor] : state.tensors) tensors.add(kStatePrefix + name, tensor);
  CheckpointMetadata metadata = metadata_of(runtime);
  metadata.progress = progress;
  metadata.state = state.metadata;
  tensors.write(path, text_of(metadata));
}

void write_weights(const std::filesystem::path& path, const Runtime& runtime,
                   const std::map<std::string, at::Tensor>& others) {
  CheckedTensors tensors;
  add_parameters(tensors, runtime);
  for (const auto& [name, tensor] : others) tensors.add(name, tensor);
  CheckpointMetadata metadata = metadata_of(runtime);
  metadata.holds_whole_run = false;
  tensors.write(path, text_of(metadata));
}

bool Checkpoint::has_attention(std::int64_t layer) const {
  if (std::ranges::find(metadata_.replaced, layer) != metadata_.replaced.end()) return false;
  const std::string attention = str(kModelPrefix, "layers.", layer, ".attention.");
  return file_.find(attention + "qkv.weight") != nullptr &&
         file_.find(attention + "output.weight") != nullptr;
}

Checkpoint Checkpoint::open(const std::filesystem::path& path, CheckpointUse use) {
  SafetensorsFile file = SafetensorsFile::open(path);
  check_format(file);
  verify_checksums(file, use);
  CheckpointMetadata metadata = read_metadata(file);
  return {std::move(file), std::move(metadata)};
}

std::vector<std::string> Checkpoint::load_weights(Runtime& runtime, config::Carry carry) const {
  const std::size_t backbone = runtime.model().parameters().size();
  const auto changes = runtime.stack().changed_options(trained_options());
  if (carry == config::Carry::kRefuse && !changes.empty()) {
    plugin::throw_changed_options(path().string(), changes);
  }
  std::vector<std::string> differences, reset;
  std::set<std::string> ours;
  const bool has_updates = std::ranges::any_of(file_.names(), [](const std::string& name) {
    return name.starts_with(kModelPrefix) && backbone::is_low_rank_update(name);
  });
  const config::ModelConfig& model = runtime.experiment().model;
  if (has_updates && model.lora_rank > 0 && model.lora_alpha != experiment().model.lora_alpha) {
    differences.push_back(str("model.lora_alpha: expected ", format_exact(model.lora_alpha),
                              ", got ", format_exact(experiment().model.lora_alpha)));
  }
  for (std::size_t i = 0; i < runtime.parameters().size(); ++i) {
    const optim::TrainableParameter& parameter = runtime.parameters()[i];
    ours.insert(parameter.name);
    if (i >= backbone &&
        plugin::is_changed(changes, runtime.stack().parameters()[i - backbone].tier)) {
      reset.push_back(parameter.name);
      continue;
    }
    // Weights from before the updates: these begin as they are.
    if (i < backbone && !has_updates && backbone::is_low_rank_update(parameter.name)) {
      reset.push_back(parameter.name);
      continue;
    }
    std::string found = difference(file_, parameter.name, parameter.tensor);
    if (found.empty()) continue;
    const bool may_reset = i >= backbone && carry == config::Carry::kReset;
    may_reset ? reset.push_back(parameter.name) : differences.push_back(std::move(found));
  }
  for (const std::string& name : file_.names()) {
    if (name.starts_with(kModelPrefix) && !ours.contains(name)) {
      differences.push_back(str(name, ": the model has no such parameter"));
    }
  }
  if (!differences.empty()) {
    const bool is_other_model = std::ranges::any_of(
        differences, [](const std::string& line) { return line.starts_with(kModelPrefix); });
    const std::vector<std::string> settings = is_other_model
                                                  ? setting_differences(model, experiment().model)
                                                  : std::vector<std::string>();
    refuse("the checkpoint belongs to another model:",
           settings.empty() ? differences : with_first(settings, differences),
           !settings.empty()
               ? "give the experiment the [model] that the weights were trained with" +
                     experiment_beside(path())
           : is_other_model ? "use the memory that wrote it: one that replaces the attention of "
                              "layers is a part of the model"
                            : "use the experiment and the memory that wrote it; memory.carry = "
                              "\"reset\" gives a memory's parameters their initial values");
  }
  const at::NoGradGuard no_grad;
  for (const optim::TrainableParameter& parameter : runtime.parameters()) {
    if (std::find(reset.begin(), reset.end(), parameter.name) != reset.end()) continue;
    at::Tensor target = parameter.tensor;
    copy_into(target, file_.at(parameter.name));
  }
  runtime.weights_changed();
  std::vector<std::string> of_memory = reset;
  std::erase_if(of_memory, [](const std::string& name) { return name.starts_with(kModelPrefix); });
  runtime.draw_parameters(of_memory);
  return reset;
}

void Checkpoint::check_moments(const std::vector<optim::Optimizer::Moments>& all) const {
  std::vector<std::string> differences;
  const auto check = [&](const std::string& name, const at::Tensor& tensor) {
    std::string found = difference(file_, name, tensor);
    if (found.empty() && file_.at(name).dtype != tensor::to_dtype(tensor.scalar_type())) {
      found = str(name, ": expected ", dtype_name(tensor::to_dtype(tensor.scalar_type())), ", got ",
                  dtype_name(file_.at(name).dtype));
    }
    if (!found.empty()) differences.push_back(std::move(found));
  };
  for (const optim::Optimizer::Moments& moments : all) for_each_tensor(moments, check);
  if (differences.empty()) return;
  refuse("the optimiser's moments do not fit this run:", differences,
         "resume with the experiment that wrote the checkpoint");
}

void Checkpoint::load_moments(std::vector<optim::Optimizer::Moments>& all) const {
  check_moments(all);
  const at::NoGradGuard no_grad;
  for (optim::Optimizer::Moments& moments : all) {
    for_each_tensor(moments, [&](const std::string& name, const at::Tensor& tensor) {
      copy_into(tensor, file_.at(name));
    });
  }
}

at::Tensor Checkpoint::parameter(const std::string& name) const {
  const TensorView* const view = file_.find(name);
  return view == nullptr ? at::Tensor() : tensor::to_tensor(*view);
}

memory::NamedState Checkpoint::saved_state() const {
  return {tensors_below(file_, kStatePrefix), metadata_.state};
}

memory::StackState Checkpoint::restored_state(const Runtime& runtime) const {
  try {
    return runtime.stack().restore(memory::Phase::kTraining, runtime.experiment().train.lanes,
                                   saved_state());
  } catch (const Error& error) {
    throw error.with_context(path().string());
  }
}

// --- Which runs can go on from a checkpoint ---

namespace {

constexpr std::size_t kShownDifferences = 5;

// The first lines of a list of problems.
std::string first_of(const std::vector<std::string>& lines) {
  std::string text;
  for (std::size_t i = 0; i < lines.size() && i < kShownDifferences; ++i) text += "\n  " + lines[i];
  if (lines.size() > kShownDifferences) {
    text += str("\n  and ", lines.size() - kShownDifferences, " more");
  }
  return text;
}

// The settings that a resumed run must share with the checkpoint: all but paths, pins, lengths,
// reporting and the kernel of attention.
config::Experiment determining_settings(config::Experiment experiment) {
  experiment.memory.plugins.clear();
  for (config::TierConfig& tier : experiment.memory.tiers) tier.sha256.clear();
  for (std::filesystem::path* path :
       {&experiment.data.train, &experiment.data.valid, &experiment.data.test,
        &experiment.data.prepared, &experiment.data.vocabulary_file}) {
    path->clear();
  }
  experiment.eval = {};
  experiment.generate = {};
  experiment.model.attention_kernel = {};
  experiment.model.row_kernels = {};
  const config::TrainConfig none;
  experiment.train.steps = 1;
  experiment.train.epochs = 0;
  experiment.train.log_every = none.log_every;
  experiment.train.eval_every = none.eval_every;
  experiment.train.save_every = none.save_every;
  experiment.train.early_stop = none.early_stop;
  experiment.train.keep_checkpoints = none.keep_checkpoints;
  experiment.train.tensorboard = none.tensorboard;
  experiment.train.bucket_mb = none.bucket_mb;
  experiment.train.shard_optimizer = none.shard_optimizer;
  return experiment;
}

// "[section] key = value" of every line.
std::set<std::string> settings_of(const config::Experiment& experiment) {
  std::set<std::string> out;
  std::istringstream in(config::to_toml(determining_settings(experiment)));
  std::string section;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("[")) section = line;
    if (!line.empty()) out.insert(section == line ? line : section + " " + line);
  }
  return out;
}

}  // namespace

void Checkpoint::refuse(const std::string& failed, const std::vector<std::string>& differences,
                        const std::string& hint) const {
  throw_usage({.where = path().string(), .failed = str(failed, first_of(differences), '\n', hint)});
}

void Checkpoint::check_whole_run() const {
  if (holds_whole_run()) return;
  throw_usage({.where = path().string(),
               .failed = "it holds weights alone: there is no training to resume",
               .hint = "start a new run from them with mneme train EXP --init RUN"});
}

void Checkpoint::check_resumable(const config::Experiment& experiment) const {
  check_whole_run();
  const std::set<std::string> theirs = settings_of(this->experiment());
  const std::set<std::string> ours = settings_of(experiment);
  std::vector<std::string> differences;
  for (const std::string& line : theirs) {
    if (!ours.contains(line)) differences.push_back("checkpoint: " + line);
  }
  for (const std::string& line : ours) {
    if (!theirs.contains(line)) differences.push_back("this run:   " + line);
  }
  if (!differences.empty()) {
    refuse("the checkpoint was written with other settings:", differences,
           "resume with the experiment that wrote it, or start a new run");
  }
}

}  // namespace mneme::run
