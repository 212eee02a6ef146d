#include "host/weights/initial_weights.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "host/weights/official_weights.hpp"
#include "host/base/error.hpp"
#include "host/base/log.hpp"
#include "host/base/file/sha256.hpp"
#include "host/tensor/torch.hpp"
#include "host/run/checkpoint/checkpoint.hpp"
#include "host/run/checkpoint/checkpoint_format.hpp"
#include "host/run/run_folder.hpp"

namespace mneme::weights {
namespace {

namespace fs = std::filesystem;

bool is_checkpoint(const SafetensorsFile& file) {
  const auto found = file.metadata().find("format");
  return found != file.metadata().end() && found->second == run::kFormat;
}

InitialWeights load_checkpoint(run::Runtime& runtime, const fs::path& path) {
  InitialWeights report;
  const run::Checkpoint checkpoint = run::Checkpoint::open(path);
  report.fresh = checkpoint.load_weights(runtime, runtime.experiment().memory.carry);
  report.is_rounded =
      checkpoint.precision() == "f64" && runtime.precision() != config::Precision::kF64;
  return report;
}

InitialWeights load_official_file(run::Runtime& runtime, const SafetensorsFile& file,
                                  const std::string& prefix, const fs::path& names) {
  InitialWeights report;
  report.is_official = true;
  report.names = names.empty() ? find_names(runtime.stack(), file, prefix)
                               : NameMap::read(names);
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
  const bool is_wide =
      std::any_of(file.names().begin(), file.names().end(), [&](const std::string& name) {
        return name.starts_with(prefix) && file.at(name).dtype == DType::F64;
      });
  report.is_rounded = is_wide && runtime.precision() != config::Precision::kF64;
  return report;
}

// Weights for the ids of another vocabulary fit when it has as many symbols: that is said.
void compare_vocabularies(const run::Runtime& runtime, const fs::path& run) {
  const data::Vocabulary* const ours = runtime.dataset()->vocabulary();
  const Json info = run::RunFolder::open(run).raw_info();
  const Json data = info.is_object() ? info.value("data", Json()) : Json();
  const Json theirs = data.is_object() ? data.value("vocabulary_sha256", Json()) : Json();
  if (ours == nullptr || theirs.is_null() || theirs == ours->sha256()) return;
  log_warning(run.string(), ": it was trained with another vocabulary (sha256 ",
              theirs.get<std::string>(), ") than this run's (sha256 ", ours->sha256(),
              "): its weights stand for other symbols");
}

}  // namespace

InitialWeights load_initial_weights(run::Runtime& runtime, const fs::path& source,
                                    const std::string& prefix, const fs::path& names) {
  const fs::path path = fs::is_directory(source) ? run::RunFolder::open(source).checkpoint() : source;
  const SafetensorsFile file = SafetensorsFile::open(path);
  const bool is_ours = is_checkpoint(file);
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
    log_warning(path.string(), ": it has no values for these parameters of the memory, which keep ",
                "their first values: ", join(report.fresh, ", "));
  }
  if (fs::is_directory(source)) compare_vocabularies(runtime, source);
  runtime.set_weights_source({fs::absolute(path).lexically_normal(), sha256_file(path)});
  return report;
}

}  // namespace mneme::weights
