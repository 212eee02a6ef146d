#include "host/run/run_description.hpp"

#include <cmath>
#include <ctime>
#include <nlohmann/json.hpp>

#include "host/eval/result.hpp"
#include "host/tensor/device.hpp"
#include "host/run/host_commit.hpp"
#include "mneme/abi.h"

namespace mneme::run {
namespace {

Json number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

void add_numbers(Json& json, const char* key, const std::map<std::string, double>& values) {
  for (const auto& [name, value] : values) json[key][name] = number(value);
}

// The folders that the experiment names, or "default": those of whatever program opens the run.
Json plugin_folders(const config::MemoryConfig& memory) {
  if (memory.plugins.empty()) return "default";
  Json folders = Json::array();
  for (const auto& folder : memory.plugins) folders.push_back(folder.string());
  return folders;
}

}  // namespace

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

Json describe_run(const Runtime& runtime) {
  Json json;
  json["format"] = "mneme.run";
  json["revision"] = 1;
  json["mneme"] = MNEME_SDK_VERSION;
  json["commit"] = host_commit();
  json["dirty"] = is_host_dirty();
  json["torch"] = tensor::torch_version();
  json["device"] = tensor::describe(runtime.device());
  json["processor"] = tensor::processor_name();
  json["threads"] = tensor::threads();
  json["precision"] = config::to_word(runtime.precision());
  json["seed"] = runtime.experiment().train.seed;
  json["data"] = runtime.dataset()->describe();
  json["plugin_folders"] = plugin_folders(runtime.experiment().memory);
  json["plugins"] = Json::array();
  for (const memory::TierIdentity& identity : runtime.stack().identities()) {
    json["plugins"].push_back(to_json(identity));
  }
  if (const auto& source = runtime.weights_source()) {
    json["initial_weights"] = {{"file", source->file.string()}, {"sha256", source->sha256}};
  }
  json["backbone_parameters"] = runtime.backbone_parameter_count();
  json["memory_parameters"] = runtime.memory_parameter_count();
  return json;
}

Json to_json(const memory::TierIdentity& identity) {
  Json json;
  json["id"] = identity.id;
  json["version"] = identity.version;
  json["path"] = identity.path;
  json["sha256"] = identity.sha256;
  json["compiler"] = identity.compiler;
  json["commit"] = identity.commit;
  json["dirty"] = identity.is_dirty;
  return json;
}

memory::TierIdentity read_identity(const Json& json) {
  memory::TierIdentity identity;
  identity.id = json.at("id");
  identity.version = json.at("version");
  identity.path = json.at("path");
  identity.sha256 = json.value("sha256", std::string());  // runs of older versions may lack it
  identity.compiler = json.at("compiler");
  identity.commit = json.at("commit");
  identity.is_dirty = json.at("dirty");
  return identity;
}

std::vector<memory::TierIdentity> read_plugins(const Json& info) {
  std::vector<memory::TierIdentity> plugins;
  for (const Json& plugin : info.at("plugins")) plugins.push_back(read_identity(plugin));
  return plugins;
}

Json to_json(const StepReport& report) {
  Json json;
  json["kind"] = "step";
  json["step"] = report.step;
  json["loss"] = number(report.loss);
  json["grad_norm"] = number(report.grad_norm);
  json["lr"] = report.lr;
  json["tokens"] = report.tokens;
  json["seconds"] = report.seconds;
  add_numbers(json, "rates", report.rates);
  add_numbers(json, "losses", report.losses);
  add_numbers(json, "metrics", report.metrics);
  return json;
}

Json to_json(const EvalReport& report) {
  Json json;
  json["kind"] = "eval";
  json["step"] = report.step;
  json["split"] = data::to_word(report.split);
  json["best"] = report.is_best;
  json["result"] = eval::to_json(report.result);
  return json;
}

}  // namespace mneme::run
