#include "host/train/export.hpp"

#include <string_view>

#include "host/backbone/names.hpp"
#include "host/base/error.hpp"
#include "host/base/json.hpp"
#include "host/torch.hpp"
#include "host/train/checkpoint_format.hpp"
#include "host/train/tensor_bytes.hpp"

namespace mneme::train {
namespace {

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

// The arguments of the official constructor; false and -1 are its words for "off".
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
  writer.set_metadata("format", "transformer_xl");
}

void check_settings(const Checkpoint& checkpoint) {
  const std::vector<std::string> problems =
      backbone::unofficial_settings(checkpoint.experiment().model);
  if (problems.empty()) return;
  throw_usage({.where = checkpoint.path().string(),
               .failed = str("the official code has no such model:\n  ", join(problems, "\n  ")),
               .hint = {}});
}

void add_frequencies(SafetensorsWriter& writer, const Checkpoint& checkpoint) {
  const SafetensorsFile& file = checkpoint.file();
  const DType dtype = file.at(kFirstTable).dtype;
  const TensorView* const kept = file.find(str(kOfficialPrefix, backbone::kOfficialFrequencies));
  if (kept != nullptr && kept->dtype == dtype) {
    writer.add(backbone::kOfficialFrequencies, kept->dtype, kept->shape, kept->data);
    return;
  }
  const at::Tensor made = backbone::official_frequencies(
      checkpoint.experiment().model.width, dtype == DType::F64 ? at::kDouble : at::kFloat);
  writer.add_copy(backbone::kOfficialFrequencies, to_dtype(made.scalar_type()), made.sizes().vec(),
                  made.const_data_ptr());
}

}  // namespace

ExportReport export_official(const Checkpoint& checkpoint, const std::filesystem::path& path) {
  check_settings(checkpoint);
  const config::ModelConfig& model = checkpoint.experiment().model;
  const SafetensorsFile& file = checkpoint.file();
  SafetensorsWriter writer;
  ExportReport report;
  const auto add = [&](const std::string& name, const TensorView& view) {
    writer.add(name, view.dtype, view.shape, view.data);
    ++report.tensors;
    report.bytes += view.bytes;
  };
  for (const std::string& name : file.names()) {
    if (name.starts_with(kMemoryPrefix)) report.left_out.push_back(name);
    if (!name.starts_with(kModelPrefix)) continue;
    for (const std::string& official :
         backbone::official_names(name.substr(kModelPrefix.size()), model)) {
      add(official, file.at(name));
    }
  }
  add_frequencies(writer, checkpoint);
  ++report.tensors;
  set_arguments(writer, model, vocabulary_of(file, model));
  writer.write(path);
  return report;
}

}  // namespace mneme::train
