#include "host/weights/official_weights.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "host/base/error.hpp"
#include "host/base/file/checksum.hpp"
#include "host/base/log.hpp"
#include "host/run/checkpoint/checkpoint.hpp"
#include "host/run/checkpoint/checkpoint_files.hpp"
#include "host/run/checkpoint/checkpoint_format.hpp"
#include "host/run/run_folder.hpp"
#include "host/tensor/dtypes.hpp"
#include "host/tensor/torch.hpp"
#include "host/weights/pretrained/folder_record.hpp"
#include "host/weights/pretrained/folder_tensors.hpp"

namespace mneme::weights {
namespace {

std::string misfit_dtype(const TensorView& view) {
  if (holds_reals(view.dtype)) return "";
  return str("wrong dtype: expected F64, F32, F16 or BF16, got ", dtype_name(view.dtype));
}

std::string misfit_shape(at::IntArrayRef expected, const TensorView& view) {
  if (expected == at::IntArrayRef(view.shape)) return "";
  return str("wrong shape: expected ", list_text(expected.vec()), ", got ", list_text(view.shape));
}

std::string frequency_misfit(const SafetensorsFile& file, const std::string& name,
                             std::int64_t width) {
  if (std::string problem = misfit_dtype(file.at(name)); !problem.empty()) return problem;
  const at::Tensor ours = official_frequencies(width, at::kDouble);
  const at::Tensor theirs = read_tensor(file, name, at::kDouble);
  // f32 powers differ in the last bits between processors; BF16 files keep 8 bits.
  constexpr double kTolerance = 1e-2;
  if (theirs.sizes() == ours.sizes() && at::allclose(theirs, ours, kTolerance, 0.0)) return "";
  return str("other position frequencies: expected 10000^(-2k/", width, "), k < ", width / 2);
}

bool has_same_bytes(const TensorView& a, const TensorView& b) {
  return a.dtype == b.dtype && a.bytes == b.bytes &&
         (a.bytes == 0 || std::memcmp(a.data, b.data, a.bytes) == 0);
}

// Contradictions between the file's metadata and the settings.
std::vector<std::string> metadata_problems(const OfficialTarget& target,
                                           const SafetensorsFile& file) {
  std::vector<std::string> problems;
  const std::string ours = target.config.norm == config::Norm::kPre ? "true" : "false";
  if (const std::string theirs = file.metadata_or("pre_lnorm", ours); theirs != ours) {
    problems.push_back(str("model.norm: \"", to_word(target.config.norm),
                           "\", but the file says pre_lnorm = ", theirs));
  }
  if (target.stack == nullptr || target.names == nullptr) return problems;
  const std::vector<std::size_t> tiers = named_tiers(target.stack->identities(), target.names);
  if (tiers.size() > 1) {
    problems.push_back(str("memory.tier.", tiers[1], ": the official code has one memory of ",
                           target.names->plugin, ", the experiment has ", tiers.size()));
  }
  if (tiers.size() != 1 || target.memory == nullptr) return problems;
  const config::Value& options = target.memory->tiers.at(tiers.front()).options;
  if (target.names->excludes(options)) {
    problems.push_back(str("memory.tier.", tiers.front(),
                           ": the names are those of a memory without ",
                           target.names->unless.toml()));
    return problems;
  }
  for (const auto& [name, value] : target.names->arguments(options)) {
    const std::string own = value.dump(), theirs = file.metadata_or(name, own);
    if (theirs == own) continue;
    problems.push_back(str("memory.tier.", tiers.front(), ": its options mean ", name, " = ", own,
                           ", but the file says ", name, " = ", theirs));
  }
  return problems;
}

// Compares a file's tensors with the target's parameters.
class Checker {
 public:
  Checker(const OfficialTarget& target, const SafetensorsFile& file, const std::string& prefix)
      : target_(target), file_(file), prefix_(prefix), tensors_(official_tensors(target)) {
    for (const OfficialTensor& tensor : tensors_) {
      for (const std::string& name : tensor.names) by_name_.emplace(name, &tensor);
    }
    if (target.names == nullptr) return;
    for (UnusedTensor& tensor : target.names->unused(target.config.layers)) {
      unused_.emplace(std::move(tensor.official), std::move(tensor.shape));
    }
  }

  // What is wrong with a tensor of the file; "" when nothing is.
  std::string problem_of(const std::string& full) {
    const std::string official = full.substr(prefix_.size());
    if (official == kOfficialFrequencies) {
      return frequency_misfit(file_, full, target_.config.width);
    }
    if (const auto found = unused_.find(official); found != unused_.end()) {
      return misfit_shape(found->second, file_.at(full));
    }
    const auto found = by_name_.find(official);
    if (found == by_name_.end()) return "unexpected: the model has no such parameter";
    std::string problem = misfit_shape(found->second->value.sizes(), file_.at(full));
    if (problem.empty()) problem = misfit_dtype(file_.at(full));
    const auto [first, is_new] = source_.emplace(found->second, full);
    if (problem.empty() && !is_new && !has_same_bytes(file_.at(first->second), file_.at(full))) {
      return str("differs from ", first->second, ", with which the model shares it");
    }
    return problem;
  }

  // The parameters that the tensors seen so far leave without values.
  [[nodiscard]] std::vector<std::string> missing() const {
    std::vector<std::string> problems;
    std::set<std::string> named;
    for (const OfficialTensor& tensor : tensors_) {
      named.insert(tensor.parameter);
      if (source_.contains(&tensor)) continue;
      problems.push_back(str(prefix_, tensor.names.front(), ": missing in the file"));
    }
    for (const backbone::Parameter& parameter : target_.model.parameters()) {
      if (named.contains(parameter.name) || backbone::is_low_rank_update(parameter.name)) continue;
      problems.push_back(str(parameter.name, ": official models have no such parameter"));
    }
    return problems;
  }

 private:
  const OfficialTarget& target_;
  const SafetensorsFile& file_;
  const std::string& prefix_;
  std::vector<OfficialTensor> tensors_;
  std::map<std::string, const OfficialTensor*> by_name_;
  std::map<std::string, std::vector<std::int64_t>> unused_;
  std::map<const OfficialTensor*, std::string> source_;  // the file's first name of each
};

}  // namespace

std::vector<std::size_t> named_tiers(const std::vector<memory::TierIdentity>& tiers,
                                     const NameMap* names) {
  std::vector<std::size_t> out;
  for (std::size_t i = 0; names != nullptr && i < tiers.size(); ++i) {
    if (tiers[i].id == names->plugin) out.push_back(i);
  }
  return out;
}

std::vector<OfficialTensor> official_tensors(const OfficialTarget& target) {
  std::vector<OfficialTensor> out;
  for (const backbone::Parameter& parameter : target.model.parameters()) {
    std::vector<OfficialPart> parts =
        official_parts(parameter.name, parameter.tensor.sizes().vec(), target.config, target.names);
    for (OfficialPart& part : parts) {
      out.push_back({.names = std::move(part.names),
                     .parameter = parameter.name,
                     .value = parameter.tensor.narrow(0, part.first, part.rows)});
    }
  }
  if (target.stack == nullptr || target.names == nullptr) return out;
  for (const memory::TierParameter& parameter : target.stack->parameters()) {
    const std::string official = target.names->name_of_tier_parameter(parameter.name);
    if (official.empty()) continue;
    out.push_back({.names = {official}, .parameter = parameter.name, .value = parameter.tensor});
  }
  return out;
}

std::optional<NameMap> find_names(const memory::Stack& stack, const SafetensorsFile& file,
                                  const std::string& prefix) {
  for (const memory::TierIdentity& tier : stack.identities()) {
    std::optional<NameMap> names = NameMap::beside(tier.path);
    if (!names) continue;
    for (const std::string& full : file.names()) {
      if (full.starts_with(prefix) && names->has_own(full.substr(prefix.size()))) return names;
    }
  }
  return std::nullopt;
}

at::Tensor read_tensor(const SafetensorsFile& file, const std::string& name, at::ScalarType dtype) {
  const TensorView& view = file.at(name);
  if (!tensor::scalar_type_of(view.dtype))
    throw_run({.where = str("tensor \"", view.name, "\""),
               .failed = "its dtype cannot be read as numbers of a model",
               .expected = "a floating or a signed integer type",
               .got = std::string(dtype_name(view.dtype))});
  return tensor::to_tensor(view).to(dtype);
}

std::vector<std::string> check_official(const OfficialTarget& target, const SafetensorsFile& file,
                                        const std::string& prefix) {
  std::vector<std::string> problems = unofficial_settings(target.config, target.names);
  const std::vector<std::string> said = metadata_problems(target, file);
  problems.insert(problems.end(), said.begin(), said.end());
  Checker checker(target, file, prefix);
  for (const std::string& full : file.names()) {
    if (!full.starts_with(prefix)) continue;
    const std::string problem = checker.problem_of(full);
    if (!problem.empty()) problems.push_back(str(full, ": ", problem));
  }
  const std::vector<std::string> absent = checker.missing();
  problems.insert(problems.end(), absent.begin(), absent.end());
  return problems;
}

void load_official(const OfficialTarget& target, const SafetensorsFile& file,
                   const std::string& prefix) {
  const std::vector<std::string> problems = check_official(target, file, prefix);
  if (!problems.empty()) {
    throw_run(ErrorText{
        .where = file.path().string(),
        .failed = str("these are not the weights of the experiment's model:\n  ",
                      join(problems, "\n  "), "\n"),
        .hint = "change [model], [memory] or data.vocabulary_size to what the weights were trained "
                "with"});
  }
  const at::NoGradGuard no_grad;
  for (const OfficialTensor& tensor : official_tensors(target)) {
    for (const std::string& name : tensor.names) {
      if (!file.contains(prefix + name)) continue;
      at::Tensor value = tensor.value;
      value.copy_(read_tensor(file, prefix + name, value.scalar_type()));
      break;
    }
  }
  target.model.weights_changed();
  if (target.stack != nullptr) target.stack->weights_changed();
}

namespace {

namespace fs = std::filesystem;

InitialWeights load_checkpoint(run::Runtime& runtime, const fs::path& path) {
  InitialWeights report;
  const run::Checkpoint checkpoint = run::Checkpoint::open(path, run::CheckpointUse::kEvaluation);
  report.fresh = checkpoint.load_weights(runtime, runtime.experiment().memory.carry);
  report.is_rounded =
      checkpoint.precision() == "f64" && runtime.precision() != config::Precision::kF64;
  return report;
}

InitialWeights load_official_file(run::Runtime& runtime, const SafetensorsFile& file,
                                  const std::string& prefix, const fs::path& names) {
  InitialWeights report;
  report.is_official = true;
  report.names = names.empty() ? find_names(runtime.stack(), file, prefix) : NameMap::read(names);
  const config::Experiment& experiment = runtime.experiment();
  const OfficialTarget target{.model = runtime.model(),
                              .config = experiment.model,
                              .stack = &runtime.stack(),
                              .names = report.names ? &*report.names : nullptr,
                              .memory = &experiment.memory};
  load_official(target, file, prefix);
  runtime.weights_changed();
  std::set<std::string> loaded;
  for (const OfficialTensor& tensor : official_tensors(target)) {
    loaded.insert(tensor.parameter);
  }
  const std::vector<optim::TrainableParameter>& all = runtime.parameters();
  for (std::size_t i = runtime.model().parameters().size(); i < all.size(); ++i) {
    if (!loaded.contains(all[i].name)) report.fresh.push_back(all[i].name);
  }
  runtime.draw_parameters(report.fresh);
  for (const backbone::Parameter& one : runtime.model().parameters()) {
    if (backbone::is_low_rank_update(one.name)) report.fresh.push_back("model." + one.name);
  }
  const bool is_wide =
      std::any_of(file.names().begin(), file.names().end(), [&](const std::string& name) {
        return name.starts_with(prefix) && file.at(name).dtype == DType::F64;
      });
  report.is_rounded = is_wide && runtime.precision() != config::Precision::kF64;
  return report;
}

// Weights of another vocabulary of equal size have the right shapes; the log has a warning.
void compare_vocabularies(const run::Runtime& runtime, const fs::path& run) {
  const data::Vocabulary* const ours = runtime.dataset()->vocabulary();
  const Json info = run::RunFolder::at(run).raw_info();
  const Json data = info.is_object() ? info.value("data", Json()) : Json();
  const Json theirs = data.is_object() ? data.value("vocabulary_sha256", Json()) : Json();
  if (ours == nullptr || theirs.is_null() || theirs == ours->sha256()) return;
  log_warning(run.string(), ": it was trained with another vocabulary (sha256 ",
              theirs.get<std::string>(), ") than this run's (sha256 ", ours->sha256(),
              "): its weights stand for other symbols");
}

}  // namespace

fs::path initial_weights_file(const fs::path& source) {
  std::error_code ignored;
  if (!fs::exists(run::RunFolder::at(source).experiment_file(), ignored) &&
      fs::exists(source / kConfigName, ignored)) {
    throw_usage({.where = source.string(),
                 .failed = "this is a model folder, and not a run",
                 .expected = "a run, a checkpoint or official weights",
                 .hint = str("make a run of it: mneme import --from ", shell_word(source.string()),
                             " EXP --run DIR, and begin with that")});
  }
  return fs::is_directory(source) ? run::RunFolder::open(source).checkpoint() : source;
}

InitialWeights load_initial_weights(run::Runtime& runtime, const fs::path& source,
                                    const std::string& prefix, const fs::path& names) {
  const fs::path path = initial_weights_file(source);
  const SafetensorsFile file = SafetensorsFile::open(path);
  const bool is_ours = file.metadata_or("format", "") == run::kFormat;
  if (is_ours && !(prefix.empty() && names.empty())) {
    throw_usage({.where = path.string(),
                 .failed = prefix.empty()
                               ? str("the name map ", names.string(), " is given")
                               : str("the prefix \"", prefix, "\" is given for official weights"),
                 .expected = "official weights",
                 .got = "a checkpoint of mneme"});
  }
  InitialWeights report =
      is_ours ? load_checkpoint(runtime, path) : load_official_file(runtime, file, prefix, names);
  if (report.is_rounded) {
    log_warning(path.string(), ": its F64 numbers are rounded: train.precision is \"",
                config::to_word(runtime.precision()), '"');
  }
  if (!report.fresh.empty()) {
    log_warning(path.string(), ": it has no values for these parameters, which keep ",
                "their first values: ", join(report.fresh, ", "));
  }
  const fs::path run =
      fs::is_directory(source) ? source : fs::absolute(path).parent_path().parent_path();
  if (fs::exists(run::RunFolder::at(run).info_file())) compare_vocabularies(runtime, run);
  runtime.set_weights_source({.file = fs::absolute(path).lexically_normal(),
                              .sha256 = sha256_file(path),
                              .pretrained = is_ours ? find_record_text(source) : ""});
  return report;
}

}  // namespace mneme::weights
