#include "host/weights/weight_files.hpp"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>

#include "host/base/error.hpp"
#include "host/base/log.hpp"
#include "host/base/text.hpp"
#include "host/run/checkpoint/checkpoint.hpp"
#include "host/run/checkpoint/checkpoint_format.hpp"
#include "host/run/record/run_writer.hpp"
#include "host/tensor/dtypes.hpp"
#include "host/tensor/torch.hpp"
#include "host/weights/folder_in_making.hpp"
#include "host/weights/names.hpp"
#include "host/weights/official_weights.hpp"
#include "host/weights/pretrained/folder_tensors.hpp"

namespace mneme::weights {
namespace {

namespace fs = std::filesystem;

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
  LogFile log;
  const FolderInMaking folder(options.folder, "the run's folder", "--run");
  run::RuntimeOptions with_data;
  with_data.dataset = vocabulary_alone(experiment.data, options);
  with_data.weights_follow = true;
  with_data.computes = false;
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
    log.open(writer->folder().log());
    run::write_weights(writer->prepare_checkpoint(0), runtime,
                       kept_tensors(SafetensorsFile::open(weights), options.prefix,
                                    experiment.model.layers, report.weights.names));
  }
  folder.keep();
  report.backbone_parameters = runtime.backbone_parameter_count();
  report.memory_parameters = runtime.memory_parameter_count();
  return report;
}

namespace {

constexpr const char* kTransformerXl = "transformer_xl";
constexpr std::string_view kModelPrefix = "model.";
constexpr std::string_view kMemoryPrefix = "memory.";
constexpr const char* kFirstTable = "model.embedding.0.weight";

std::int64_t vocabulary_of(const SafetensorsFile& file, const config::ModelConfig& model) {
  std::int64_t rows = 0;
  const std::size_t tables =
      model.adaptive && model.adaptive->div > 1 ? model.adaptive->cutoffs.size() + 1 : 1;
  for (std::size_t i = 0; i < tables; ++i) {
    rows += file.at(str(kModelPrefix, "embedding.", i, ".weight")).shape.at(0);
  }
  return rows;
}

// The arguments of the official constructor, where false and -1 mean "off".
void set_arguments(SafetensorsWriter& writer, const config::ModelConfig& model,
                   std::int64_t vocabulary) {
  const config::AdaptiveConfig adaptive = model.adaptive.value_or(config::AdaptiveConfig{});
  const std::vector<bool> ties =
      adaptive.tie_projection.empty() ? std::vector<bool>{false} : adaptive.tie_projection;
  const Json arguments = {{"n_token", vocabulary},
                          {"n_layer", model.layers},
                          {"n_head", model.heads},
                          {"d_model", model.width},
                          {"d_head", model.head_width},
                          {"d_inner", model.ff},
                          {"d_embed", model.embedding},
                          {"dropout", model.dropout},
                          {"dropatt", model.attention_dropout},
                          {"tie_weight", model.tie_embedding},
                          {"div_val", adaptive.div},
                          {"tie_projs", ties},
                          {"pre_lnorm", model.norm == config::Norm::kPre},
                          {"cutoffs", adaptive.cutoffs},
                          {"same_length", model.same_length},
                          {"clamp_len", model.clamp_distance > 0 ? model.clamp_distance : -1},
                          {"attn_type", 0}};
  for (const auto& [key, value] : arguments.items()) writer.set_metadata(key, value.dump());
}

// True when there are tiers of the map's plugin and it holds for none of them.
bool is_excluded(const run::Checkpoint& checkpoint, const NameMap& map) {
  const std::vector<std::size_t> tiers = named_tiers(checkpoint.plugins(), &map);
  return !tiers.empty() && std::ranges::all_of(tiers, [&](std::size_t i) {
    return map.excludes(checkpoint.experiment().memory.tiers.at(i).options);
  });
}

// The name map to write by: that of the options, else one beside a tier's library; absent = the
// official Transformer-XL's names.
std::optional<NameMap> choose_names(const run::Checkpoint& checkpoint,
                                    const ExportOptions& options) {
  std::vector<NameMap> maps;
  if (!options.names.empty()) {
    maps.push_back(NameMap::read(options.names));
  } else {
    for (const memory::TierIdentity& tier : checkpoint.plugins()) {
      if (std::optional<NameMap> map = NameMap::beside(tier.path)) maps.push_back(std::move(*map));
    }
  }
  if (options.format == kTransformerXl) return std::nullopt;
  std::vector<std::string> known = {kTransformerXl};
  for (NameMap& map : maps) {
    known.push_back(map.format);
    if (!options.format.empty() && options.format != map.format) continue;
    if (!is_excluded(checkpoint, map)) return std::move(map);
    if (options.format.empty() && options.names.empty()) continue;
    throw_usage({.where = map.path.string(),
                 .failed = str("the map is for every memory of ", map.plugin, " but those with ",
                               map.unless.toml()),
                 .hint = "leave out --format and --names: Transformer-XL's names hold"});
  }
  if (options.format.empty()) return std::nullopt;
  throw_usage({.where = checkpoint.path().string(),
               .failed = str("there is no format \"", options.format, '"'),
               .expected = join(known, " or "),
               .hint = "a name map beside the memory's library, or --names FILE, gives a format"});
}

// Writes one checkpoint under official names.
class Export {
 public:
  Export(const run::Checkpoint& checkpoint, const std::optional<NameMap>& names)
      : checkpoint_(checkpoint), names_(names ? &*names : nullptr) {
    report_.format = names_ == nullptr ? kTransformerXl : names_->format;
    check_settings();
  }

  ExportReport write(const std::filesystem::path& path) {
    const SafetensorsFile& file = checkpoint_.file();
    for (const std::string& name : file.names()) {
      if (name.starts_with(kMemoryPrefix)) add_tier_parameter(name, file.at(name));
      if (name.starts_with(kModelPrefix)) add_parameter(name, file.at(name));
    }
    add_others();
    set_arguments(writer_, model(), vocabulary_of(file, model()));
    if (names_ != nullptr) set_own_arguments();
    writer_.set_metadata("format", report_.format);
    writer_.write(path);
    return report_;
  }

 private:
  [[nodiscard]] const config::ModelConfig& model() const { return checkpoint_.experiment().model; }

  void check_settings() const {
    std::vector<std::string> problems = unofficial_settings(model(), names_);
    const std::vector<std::size_t> tiers = named_tiers(checkpoint_.plugins(), names_);
    if (tiers.size() > 1) {
      problems.push_back(str("memory.tier.", tiers[1], ": expected one tier of ", names_->plugin,
                             ", got ", tiers.size()));
    }
    for (std::int64_t layer = 0; layer < model().layers; ++layer) {
      if (!checkpoint_.has_attention(layer))
        problems.push_back(str("layer ", layer, " has no attention: the memory replaces it"));
    }
    if (problems.empty()) return;
    throw_usage({.where = checkpoint_.path().string(),
                 .failed = str("the official code has no such model:\n  ", join(problems, "\n  ")),
                 .hint = {}});
  }

  void add(const std::string& name, DType dtype, const std::vector<std::int64_t>& shape,
           const std::byte* data, std::uint64_t bytes) {
    writer_.add(name, dtype, shape, data);
    ++report_.tensors;
    report_.bytes += bytes;
  }

  void add_parameter(const std::string& name, const TensorView& view) {
    const std::string ours = name.substr(kModelPrefix.size());
    values_.push_back(merged_parameter(checkpoint_, name));  // low-rank updates have no names
    const auto* const data = static_cast<const std::byte*>(values_.back().const_data_ptr());
    for (const OfficialPart& part : official_parts(ours, view.shape, model(), names_)) {
      std::vector<std::int64_t> shape = view.shape;
      const std::uint64_t row =
          view.bytes / static_cast<std::uint64_t>(std::max<std::int64_t>(1, shape.at(0)));
      shape.at(0) = part.rows;
      for (const std::string& official : part.names) {
        add(official, view.dtype, shape, data + static_cast<std::uint64_t>(part.first) * row,
            static_cast<std::uint64_t>(part.rows) * row);
      }
    }
  }

  void add_tier_parameter(const std::string& name, const TensorView& view) {
    const std::string official = names_ == nullptr ? "" : names_->name_of_tier_parameter(name);
    if (official.empty()) {
      report_.left_out.push_back(name);
    } else {
      add(official, view.dtype, view.shape, view.data, view.bytes);
    }
  }

  void add_other(const std::string& official, const at::Tensor& tensor) {
    ++report_.tensors;
    writer_.add_copy(official, tensor::to_dtype(tensor.scalar_type()), tensor.sizes().vec(),
                     tensor.const_data_ptr());
  }

  void add_others() {
    const SafetensorsFile& file = checkpoint_.file();
    const DType of_weights = file.at(kFirstTable).dtype;
    const at::ScalarType dtype = of_weights == DType::F64 ? at::kDouble : at::kFloat;
    const auto kept = [&](const std::string& official) {
      return file.find(str(run::kOfficialPrefix, official));
    };
    // Computed anew rather than rounded or widened.
    const TensorView* const frequencies = kept(kOfficialFrequencies);
    add_other(kOfficialFrequencies, frequencies != nullptr && frequencies->dtype == of_weights
                                        ? tensor::to_tensor(*frequencies)
                                        : official_frequencies(model().width, dtype));
    if (names_ == nullptr) return;
    for (const UnusedTensor& one : names_->unused(model().layers)) {
      const TensorView* const imported = kept(one.official);
      at::Tensor value = imported == nullptr ? at::full(one.shape, one.value, dtype)
                                             : tensor::to_tensor(*imported);
      if (value.is_floating_point()) value = value.to(dtype);
      add_other(one.official, value);
    }
  }

  void set_own_arguments() {
    const std::vector<std::size_t> tiers = named_tiers(checkpoint_.plugins(), names_);
    const config::Value options =
        tiers.empty() ? config::Value()
                      : checkpoint_.experiment().memory.tiers.at(tiers.front()).options;
    for (const auto& [key, value] : names_->arguments(options)) {
      writer_.set_metadata(key, value.dump());
    }
  }

  const run::Checkpoint& checkpoint_;
  const NameMap* names_;
  std::vector<at::Tensor> values_;  // what the writer refers to
  SafetensorsWriter writer_;
  ExportReport report_;
};

}  // namespace

ExportReport export_official(const run::Checkpoint& checkpoint, const std::filesystem::path& path,
                             const ExportOptions& options) {
  const std::optional<NameMap> names = choose_names(checkpoint, options);
  return Export(checkpoint, names).write(path);
}

}  // namespace mneme::weights
