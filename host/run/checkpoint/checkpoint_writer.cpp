#include "host/base/json.hpp"

#include <nlohmann/json.hpp>
#include "host/base/text.hpp"
#include "host/tensor/torch.hpp"
#include "host/run/checkpoint/checkpoint.hpp"
#include "host/run/checkpoint/checkpoint_checksum.hpp"
#include "host/run/checkpoint/checkpoint_format.hpp"
#include "host/run/run_description.hpp"
#include "host/tensor/tensor_bytes.hpp"

namespace mneme::run {

namespace {

using Metadata = std::map<std::string, std::string>;

// The tensors of a checkpoint: CPU tensors are written from where they lie.
class Contents {
 public:
  void add(const std::string& name, const at::Tensor& tensor) {
    const at::Tensor values = tensor.detach().to(at::kCPU).contiguous();
    kept_.push_back(values);
    views_.push_back({.name = name,
                      .dtype = tensor::to_dtype(values.scalar_type()),
                      .shape = values.sizes().vec(),
                      .data = static_cast<const std::byte*>(values.const_data_ptr()),
                      .bytes = values.nbytes()});
  }
  void add_parameters(const Runtime& runtime) {
    for (const optim::TrainableParameter& parameter : runtime.parameters()) {
      add(parameter.name, parameter.tensor);
    }
  }
  void write(const std::filesystem::path& path, Metadata metadata) const {
    SafetensorsWriter writer;
    for (const TensorView& view : views_) writer.add(view.name, view.dtype, view.shape, view.data);
    add_checksums(metadata, views_);
    for (const auto& [key, value] : metadata) writer.set_metadata(key, value);
    writer.write(path);
  }

 private:
  std::vector<at::Tensor> kept_;
  std::vector<TensorView> views_;
};

Json json_of(const ValidRecord& record) {
  Json json = {{"last_step", record.last_step},
               {"evaluations_since_best", record.evaluations_since_best}};
  if (record.best_step > 0) {
    json["best_step"] = record.best_step;
    json["best_loss"] = record.best_loss;
  }
  return json;
}

Metadata metadata_of(const Runtime& runtime, const RunProgress& progress,
                     const memory::StackState::Saved& saved, const std::string& contents) {
  Json plugins = Json::array();
  for (const memory::TierIdentity& identity : runtime.stack().identities()) {
    plugins.push_back(to_json(identity));
  }
  Json options = Json::object();
  for (const auto& [tier, table] : runtime.stack().trained_options()) {
    options[tier] = plugin::to_text(table);
  }
  return {{"format", kFormat},
          {"revision", kRevision},
          {kContents, contents},
          {"experiment", config::to_toml(runtime.experiment())},
          {"precision", std::string(config::to_word(runtime.precision()))},
          {"plugins", plugins.dump()},
          {"options", options.dump()},
          {"step", std::to_string(progress.step)},
          {"tokens", std::to_string(progress.tokens)},
          {"seconds", format_exact(progress.seconds)},
          {"data_position", Json(progress.data_position).dump()},
          {"noise_position", std::to_string(progress.noise_position)},
          {"metrics_lines", std::to_string(progress.metrics_lines)},
          {"valid", json_of(progress.valid).dump()},
          {"state", Json(saved.metadata).dump()}};
}

}  // namespace

void write_checkpoint(const std::filesystem::path& path, const Runtime& runtime,
                      const optim::Adam& optimizer, const memory::StackState& state,
                      const RunProgress& progress) {
  Contents contents;
  contents.add_parameters(runtime);
  for (const optim::Adam::Moments& moments : optimizer.moments()) {
    contents.add(kMeanPrefix + moments.name, moments.mean);
    contents.add(kSquarePrefix + moments.name, moments.square);
    contents.add(kCountPrefix + moments.name, moments.count);
  }
  const memory::StackState::Saved saved = state.save();
  for (const auto& [name, tensor] : saved.tensors) contents.add(kStatePrefix + name, tensor);
  contents.write(path, metadata_of(runtime, progress, saved, kWholeRun));
}

void write_weights(const std::filesystem::path& path, const Runtime& runtime,
                   const std::map<std::string, at::Tensor>& others) {
  Contents contents;
  contents.add_parameters(runtime);
  for (const auto& [name, tensor] : others) contents.add(name, tensor);
  contents.write(path, metadata_of(runtime, {}, {}, kWeightsOnly));
}

}  // namespace mneme::run
