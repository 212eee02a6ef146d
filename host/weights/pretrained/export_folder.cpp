#include "host/weights/pretrained/export_folder.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string_view>

#include "host/base/error.hpp"
#include "host/base/file/file.hpp"
#include "host/base/file/safetensors.hpp"
#include "host/base/file/write_file.hpp"
#include "host/base/json_text.hpp"
#include "host/base/text.hpp"
#include "host/data/tokenizer/tokenizer.hpp"
#include "host/data/vocabulary/vocabulary.hpp"
#include "host/run/run_folder.hpp"
#include "host/tensor/dtypes.hpp"
#include "host/tensor/torch.hpp"
#include "host/weights/folder_in_making.hpp"
#include "host/weights/pretrained/family/family_config.hpp"
#include "host/weights/pretrained/folder_record.hpp"
#include "host/weights/pretrained/folder_tensors.hpp"

namespace mneme::weights {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kOurModel = "model.";
constexpr std::string_view kOurMemory = "memory.";
constexpr const char* kMemoryName = "memory.safetensors";
constexpr const char* kLearnedPositions = "position.embedding";

std::vector<ParameterShape> parameter_shapes(const run::Checkpoint& checkpoint) {
  std::vector<ParameterShape> out;
  for (const std::string& name : checkpoint.file().names()) {
    if (!name.starts_with(kOurModel)) continue;
    out.push_back({name.substr(kOurModel.size()), checkpoint.file().at(name).shape});
  }
  return out;
}

// The checkpoint's model, with the rows of its table of positions.
config::ModelConfig model_of_checkpoint(const run::Checkpoint& checkpoint) {
  config::ModelConfig model = checkpoint.experiment().model;
  const TensorView* const table = checkpoint.file().find(str(kOurModel, kLearnedPositions));
  if (table != nullptr) model.positions = table->shape.at(0);
  return model;
}

std::span<const std::byte> bytes_of(const at::Tensor& tensor) {
  return {static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes()};
}

// Writes one checkpoint into a folder that exists.
class FolderWriter {
 public:
  FolderWriter(const run::Checkpoint& checkpoint, fs::path folder)
      : checkpoint_(checkpoint),
        folder_(std::move(folder)),
        shapes_(parameter_shapes(checkpoint)),
        model_(model_of_checkpoint(checkpoint)) {}

  FolderExportReport write(const FolderRecord& record) {
    const std::string source = checkpoint_.path().string();
    check_attention();
    const Family* const family = find_family(record.family);
    if (family == nullptr) {
      throw_run({.where = str(source, ": pretrained.json: family"),
                 .failed = "the family is not known",
                 .expected = family_list(),
                 .got = record.family});
    }
    check_settings(record, *family);
    report_.family = record.family;
    report_.is_as_imported = record.stored_types.empty();
    const FolderNames names{.family = *family, .has_prefix = record.has_prefix};
    const std::vector<FolderTensor> tensors = folder_tensors(names, model_, shapes_);
    std::map<std::string, const FolderTensor*> by_name;
    for (const FolderTensor& tensor : tensors) {
      for (const std::string& name : tensor.names) by_name.emplace(name, &tensor);
    }
    write_text(kConfigName, record.config);
    if (!record.generation_config.empty()) {
      write_text(kGenerationName, record.generation_config);
    }
    write_beside(record.beside);
    for (const RecordedFile& file : record.files) write_file(file, record, names, by_name);
    if (!record.index.empty()) write_text(kIndexName, record.index);
    write_memory();
    return std::move(report_);
  }

  FolderExportReport write(const Family& family) {
    check_attention();
    report_.family = family.model_type;
    const std::int64_t vocabulary =
        checkpoint_.file().at(str(kOurModel, "embedding.0.weight")).shape.at(0);
    Json config = write_config(family, model_, vocabulary);
    const FolderNames names{.family = family};
    SafetensorsWriter writer;
    std::vector<at::Tensor> values;
    for (const FolderTensor& tensor : folder_tensors(names, model_, shapes_)) {
      const TensorView& view = checkpoint_.file().at(str(kOurModel, tensor.parameter));
      const at::ScalarType type = tensor::scalar_type_of(view.dtype).value();
      config["torch_dtype"] = type == at::kDouble ? "float64" : "float32";
      values.push_back(value_for_folder(tensor, merged(tensor.parameter), type));
      writer.add(tensor.names.front(), view.dtype, tensor.shape, values.back().const_data_ptr());
      ++report_.tensors;
      report_.bytes += values.back().nbytes();
    }
    writer.set_metadata("format", "pt");  // transformers reads no file without it
    write_text(kConfigName, config.dump(2) + "\n");
    write_beside({});
    writer.write(folder_ / kSingleName);
    report_.files.emplace_back(kSingleName);
    write_memory();
    return std::move(report_);
  }

 private:
  // Errors: Error(kUsage) for a layer whose attention the memory replaces.
  void check_attention() const {
    for (std::int64_t layer = 0; layer < model_.layers; ++layer) {
      if (checkpoint_.has_attention(layer)) continue;
      throw_usage({.where = checkpoint_.path().string(),
                   .failed = str("layer ", layer, " has no attention: the memory replaces it"),
                   .hint = "model folders describe decoders whose layers all have attention; the "
                           "weights stay in the run"});
    }
  }
  // A parameter with its low-rank update.
  at::Tensor merged(const std::string& parameter) const {
    return merged_parameter(checkpoint_, str(kOurModel, parameter));
  }

  void write_text(const std::string& name, const std::string& text) {
    write_file_atomic(folder_ / name, text);
    report_.files.push_back(name);
  }

  // The texts of the tokenizer that is the run's vocabulary; empty where that is none.
  std::map<std::string, std::string> run_tokenizer() const {
    std::map<std::string, std::string> out;
    const fs::path checkpoint = fs::absolute(checkpoint_.path());
    const run::RunFolder run = run::RunFolder::at(checkpoint.parent_path().parent_path());
    std::error_code ignored;
    if (!fs::exists(run.vocabulary_file(), ignored)) return out;
    const data::Vocabulary vocabulary = data::Vocabulary::load(run.vocabulary_file());
    if (vocabulary.tokenizer() == nullptr) return out;
    for (const auto& [name, text] : vocabulary.tokenizer()->files().texts) {
      if (is_tokenizer_file(name)) out[name] = text;
    }
    return out;
  }

  // Files beside the imported weights, in whose place those of the run's own tokenizer are written
  // where it is another one.
  void write_beside(std::map<std::string, std::string> beside) {
    const std::map<std::string, std::string> own = run_tokenizer();
    const bool is_other = std::ranges::any_of(own, [&](const auto& file) {
      const auto found = beside.find(file.first);
      return found == beside.end() || found->second != file.second;
    });
    if (is_other) beside = own;
    for (const auto& [name, text] : beside) {
      fs::create_directories((folder_ / name).parent_path());
      write_text(name, text);
    }
  }

  // A run may have begun with the folder's weights under other settings.
  void check_settings(const FolderRecord& record, const Family& family) const {
    const Json config = parse_json(json_of_python(record.config));
    const FolderModel source = read_config(family, config.is_object() ? config : Json::object(),
                                           kConfigName, record.ignored);
    const std::vector<std::string> lines = differing_settings(source.model, model_);
    if (lines.empty()) return;
    throw_usage({.where = checkpoint_.path().string(),
                 .failed = str("the model is not the imported one any more:\n  ",
                               join(lines, "\n  "), "\n"),
                 .hint = "write it anew with --family " + record.family});
  }

  [[noreturn]] void fail_record(const std::string& name, const std::string& failed) const {
    throw_run({.where = str(checkpoint_.path().string(), ": pretrained.json: ", name),
               .failed = failed,
               .hint = "import the folder again, or export with --family"});
  }

  // A tensor of the source that a parameter or a mask gives.
  at::Tensor value_of(const RecordedTensor& tensor, const FolderRecord& record,
                      const FolderNames& names,
                      const std::map<std::string, const FolderTensor*>& by_name) const {
    const std::optional<at::ScalarType> type_of_tensor = tensor::scalar_type_of(tensor.dtype);
    if (!type_of_tensor) fail_record(tensor.name, "no parameter can have its dtype");
    const at::ScalarType type = *type_of_tensor;
    if (const auto found = by_name.find(tensor.name); found != by_name.end()) {
      const FolderTensor& ours = *found->second;
      const at::Tensor value = value_for_folder(ours, merged(ours.parameter), type);
      if (value.sizes() == at::IntArrayRef(tensor.shape)) return value;
      throw_usage({.where = checkpoint_.path().string(),
                   .failed = str(tensor.name, " has another shape than in the imported folder"),
                   .expected = list_text(tensor.shape),
                   .got = list_text(value.sizes().vec()),
                   .hint = "write it anew with --family " + record.family});
    }
    if (names.constant_kind(tensor.name) == "causal_mask" && tensor.shape.size() == 4) {
      return causal_mask(tensor.shape.back(), type);
    }
    fail_record(tensor.name, "the record has no values for it");
  }

  void write_file(const RecordedFile& file, const FolderRecord& record, const FolderNames& names,
                  const std::map<std::string, const FolderTensor*>& by_name) {
    fs::create_directories((folder_ / file.name).parent_path());
    AppendFile out(folder_ / file.name);
    std::array<std::byte, safetensors::kLengthBytes> length{};
    for (std::size_t i = 0; i < length.size(); ++i) {
      length[i] = static_cast<std::byte>(std::uint64_t{file.header.size()} >> (8 * i) & 255);
    }
    out.append(length);
    out.append(file.header);
    for (const RecordedTensor& tensor : tensors_of(file, checkpoint_.path().string())) {
      ++report_.tensors;
      if (const auto kept = record.kept.find(tensor.name); kept != record.kept.end()) {
        if (kept->second.size() != tensor.end - tensor.begin) {
          fail_record(tensor.name, "the record has more or fewer bytes than its shape");
        }
        out.append(kept->second);
        report_.bytes += kept->second.size();
        continue;
      }
      const at::Tensor value = value_of(tensor, record, names, by_name);
      out.append(bytes_of(value));
      if (const auto found = by_name.find(tensor.name); found != by_name.end()) {
        release(checkpoint_.file().at(str(kOurModel, found->second->parameter)));
      }
      report_.bytes += value.nbytes();
    }
    out.sync();
    report_.files.push_back(file.name);
  }

  void write_memory() {
    const SafetensorsFile& file = checkpoint_.file();
    SafetensorsWriter writer;
    for (const std::string& name : file.names()) {
      if (!name.starts_with(kOurMemory)) continue;
      const TensorView& view = file.at(name);
      writer.add(name, view.dtype, view.shape, view.data);
      report_.memory.push_back(name);
    }
    if (report_.memory.empty()) return;
    writer.set_metadata("format", "mneme.memory");
    for (const char* key : {"plugins", "options"}) {
      writer.set_metadata(key, file.metadata_at(key));
    }
    writer.write(folder_ / kMemoryName);
    report_.files.emplace_back(kMemoryName);
  }

  const run::Checkpoint& checkpoint_;
  fs::path folder_;
  std::vector<ParameterShape> shapes_;
  config::ModelConfig model_;
  FolderExportReport report_;
};

}  // namespace

FolderExportReport export_folder(const run::Checkpoint& checkpoint, const fs::path& folder,
                                 const std::string& family_name) {
  const Family* const family = find_family(family_name);
  if (!family_name.empty() && family == nullptr) {
    throw_usage("--family: expected ", family_list(), ", got ", family_name);
  }
  std::optional<FolderRecord> record;
  if (family == nullptr) record = FolderRecord::find(checkpoint.path());
  if (family == nullptr && !record) {
    throw_usage({.where = checkpoint.path().string(),
                 .failed = "its weights are not from a Hugging Face model folder",
                 .hint = "name the family to write for with --family: " + family_list()});
  }
  const FolderInMaking making(folder, "the folder", "--to");
  std::error_code error;
  if (!fs::create_directories(making.path(), error) || error) {
    throw_run({.where = making.path().string(),
               .failed = "the folder cannot be made",
               .got = error ? error.message() : "something is there"});
  }
  FolderWriter writer(checkpoint, making.path());
  FolderExportReport report = record ? writer.write(*record) : writer.write(*family);
  making.keep();
  return report;
}

}  // namespace mneme::weights
