#include "host/weights/import.hpp"

#include <unistd.h>

#include <map>

#include "host/weights/official_weights.hpp"
#include "host/base/error.hpp"
#include "host/tensor/torch.hpp"
#include "host/run/checkpoint/checkpoint.hpp"
#include "host/run/checkpoint/checkpoint_format.hpp"
#include "host/run/run_writer.hpp"
#include "host/tensor/tensor_bytes.hpp"

namespace mneme::weights {
namespace {

namespace fs = std::filesystem;

// Builds the run's folder under another name beside its place; gone unless kept.
class FolderInMaking {
 public:
  explicit FolderInMaking(const fs::path& target) : target_(fs::absolute(target)) {
    if (!target_.has_filename()) target_ = target_.parent_path();  // "runs/x/"
    std::error_code error;
    const fs::file_status status = fs::symlink_status(target_, error);
    const bool is_free =
        !fs::exists(status) || (fs::is_directory(status) && fs::is_empty(target_, error));
    if (status.type() == fs::file_type::not_found) error.clear();
    if (!is_free || error) {
      throw_usage({.where = target.string(),
                   .failed = "the run's folder is taken",
                   .expected = "a path where nothing is, or an empty folder",
                   .got = error                    ? error.message()
                          : fs::is_symlink(status) ? "a link"  // rename(2) would not follow it
                                                   : "something else",
                   .hint = "name another folder with --run"});
    }
    path_ = target_.parent_path() / str(target_.filename().string(), ".importing.", ::getpid());
  }
  ~FolderInMaking() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  FolderInMaking(const FolderInMaking&) = delete;
  FolderInMaking& operator=(const FolderInMaking&) = delete;

  [[nodiscard]] const fs::path& path() const { return path_; }
  void keep() const {
    std::error_code error;
    fs::rename(path_, target_, error);
    if (!error) return;
    throw_run({.where = target_.string(),
               .failed = "the run's folder cannot be put there",
               .got = error.message()});
  }

 private:
  fs::path target_;
  fs::path path_;
};

std::shared_ptr<const data::Dataset> vocabulary_alone(const config::DataConfig& config,
                                                      const ImportOptions& options) {
  data::DatasetOptions data;
  data.splits.clear();
  data.vocabulary = options.vocabulary;
  return std::make_shared<const data::Dataset>(config, data);
}

// The tensors that are no parameters as the file has them, so that an export gives them back bit
// for bit (powers in f32 differ between processors).
std::map<std::string, at::Tensor> kept_tensors(const SafetensorsFile& file,
                                               const std::string& prefix, std::int64_t layers,
                                               const std::optional<NameMap>& names) {
  std::vector<std::string> officials = {kOfficialFrequencies};
  if (names) {
    for (const UnusedTensor& one : names->unused(layers)) {
      officials.push_back(one.official);
    }
  }
  std::map<std::string, at::Tensor> out;
  for (const std::string& official : officials) {
    const TensorView* const view = file.find(prefix + official);
    if (view != nullptr) out.emplace(str(run::kOfficialPrefix, official), tensor::to_tensor(*view));
  }
  return out;
}

}  // namespace

ImportReport import_official(const fs::path& weights, const config::Experiment& experiment,
                             const ImportOptions& options) {
  const FolderInMaking folder(options.folder);
  run::RuntimeOptions with_data;
  with_data.dataset = vocabulary_alone(experiment.data, options);
  with_data.weights_follow = true;
  run::Runtime runtime(experiment, with_data);
  ImportReport report;
  report.weights = load_initial_weights(runtime, weights, options.prefix, options.names);
  if (!report.weights.is_official) {
    throw_usage({.where = weights.string(),
                 .failed = "this is no file to import",
                 .expected = "official weights",
                 .got = "a checkpoint of mneme",
                 .hint = "start a new run from it with mneme train EXP --init FILE"});
  }
  {
    const auto writer = run::RunWriter::create(folder.path(), runtime);
    run::write_weights(writer->prepare_checkpoint(0), runtime,
                  kept_tensors(SafetensorsFile::open(weights), options.prefix,
                               experiment.model.layers, report.weights.names));
  }
  folder.keep();
  report.backbone_parameters = runtime.backbone_parameter_count();
  report.memory_parameters = runtime.memory_parameter_count();
  return report;
}

}  // namespace mneme::weights
