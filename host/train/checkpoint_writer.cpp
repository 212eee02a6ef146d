#include "host/base/json.hpp"
#include "host/base/text.hpp"
#include "host/torch.hpp"
#include "host/train/checkpoint.hpp"
#include "host/train/checkpoint_format.hpp"
#include "host/train/run_folder.hpp"
#include "host/train/tensor_bytes.hpp"

namespace mneme::train {

namespace {

void add_parameters(SafetensorsWriter& writer, const Runtime& runtime) {
  for (const TrainableParameter& parameter : runtime.parameters()) {
    add_tensor(writer, parameter.name, parameter.tensor);
  }
}

void set_metadata(SafetensorsWriter& writer, const Runtime& runtime, const RunProgress& progress,
                  const memory::StackState::Saved& saved) {
  Json plugins = Json::array();
  for (const memory::TierIdentity& identity : runtime.stack().identities()) {
    plugins.push_back(to_json(identity));
  }
  writer.set_metadata("format", kFormat);
  writer.set_metadata("revision", kRevision);
  writer.set_metadata("experiment", config::to_toml(runtime.experiment()));
  writer.set_metadata("precision", std::string(config::to_word(runtime.precision())));
  writer.set_metadata("plugins", plugins.dump());
  writer.set_metadata("step", std::to_string(progress.step));
  writer.set_metadata("tokens", std::to_string(progress.tokens));
  writer.set_metadata("seconds", format_exact(progress.seconds));
  writer.set_metadata("data_position", Json(progress.data_position).dump());
  writer.set_metadata("noise_position", std::to_string(progress.noise_position));
  Json valid = {{"last_step", progress.valid.last_step}};
  if (progress.valid.best_step > 0) {
    valid["best_step"] = progress.valid.best_step;
    valid["best_loss"] = progress.valid.best_loss;
    valid["evaluations_since_best"] = progress.valid.evaluations_since_best;
  }
  writer.set_metadata("valid", valid.dump());
  writer.set_metadata("state", Json(saved.metadata).dump());
}

}  // namespace

void write_checkpoint(const std::filesystem::path& path, const Runtime& runtime,
                      const Adam& optimizer, const memory::StackState& state,
                      const RunProgress& progress) {
  SafetensorsWriter writer;
  add_parameters(writer, runtime);
  for (const Adam::Moments& moments : optimizer.moments()) {
    add_tensor(writer, kMeanPrefix + moments.name, moments.mean);
    add_tensor(writer, kSquarePrefix + moments.name, moments.square);
    add_tensor(writer, kCountPrefix + moments.name, moments.count);
  }
  const memory::StackState::Saved saved = state.save();
  for (const auto& [name, tensor] : saved.tensors) add_tensor(writer, kStatePrefix + name, tensor);
  set_metadata(writer, runtime, progress, saved);
  writer.set_metadata(kContents, kWholeRun);
  writer.write(path);
}

void write_weights(const std::filesystem::path& path, const Runtime& runtime,
                   const std::map<std::string, at::Tensor>& others) {
  SafetensorsWriter writer;
  add_parameters(writer, runtime);
  for (const auto& [name, tensor] : others) add_tensor(writer, name, tensor);
  set_metadata(writer, runtime, {}, {});
  writer.set_metadata(kContents, kWeightsOnly);
  writer.write(path);
}

}  // namespace mneme::train
