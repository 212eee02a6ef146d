#include "host/train/run_folder.hpp"

#include <cmath>
#include <ctime>
#include <fstream>
#include <sstream>

#include "host/base/error.hpp"
#include "host/base/file.hpp"
#include "host/train/checkpoint.hpp"
#include "host/train/device.hpp"
#include "host/train/host_commit.hpp"
#include "mneme/abi.h"

namespace mneme::train {
namespace {

namespace fs = std::filesystem;

constexpr const char* kExperiment = "experiment.toml";
constexpr const char* kInfo = "run.json";
constexpr const char* kVocabulary = "vocabulary.json";

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

Json number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

void add_numbers(Json& json, const char* key, const std::map<std::string, double>& values) {
  for (const auto& [name, value] : values) json[key][name] = number(value);
}

void make_folder(const fs::path& path) {
  std::error_code error;
  if (fs::exists(path, error) && !fs::is_directory(path, error)) {
    throw_usage({.where = path.string(),
                 .failed = "the run's folder cannot be made",
                 .expected = "a folder, or a path where nothing is",
                 .got = "a file"});
  }
  fs::create_directories(path, error);
  if (error) {
    throw_run({.where = path.string(),
               .failed = "the run's folder cannot be made",
               .got = error.message()});
  }
}

}  // namespace

RunFolder RunFolder::create(const fs::path& path, const Runtime& runtime) {
  make_folder(path);
  const RunFolder folder(fs::absolute(path));
  if (fs::exists(folder.path_ / kExperiment) || fs::exists(folder.checkpoint())) {
    throw_usage({.where = path.string(),
                 .failed = "the folder already holds a run",
                 .expected = "an empty or a new folder",
                 .hint = "name another folder, remove this one, or resume its run"});
  }
  if (const data::Vocabulary* vocabulary = runtime.dataset()->vocabulary()) {
    vocabulary->save(folder.path_ / kVocabulary);
  }
  Json info = describe_run(runtime);
  info["started"] = utc_now();
  write_file_atomic(folder.path_ / kInfo, info.dump(2) + "\n");
  write_file_atomic(folder.metrics(), "");
  write_file_atomic(folder.path_ / kExperiment, config::to_toml(runtime.experiment()));
  return folder;
}

RunFolder RunFolder::open(const fs::path& path) {
  const RunFolder folder(fs::absolute(path));
  for (const char* name : {kExperiment, kInfo}) {
    if (fs::is_regular_file(folder.path_ / name)) continue;
    throw_usage({.where = path.string(),
                 .failed = "this is no run of mneme",
                 .expected = str("a folder with ", kExperiment, " and ", kInfo),
                 .got = fs::is_directory(path) ? str("no ", name) : "no such folder",
                 .hint = "name a folder that `mneme train --run` wrote"});
  }
  return folder;
}

config::Experiment RunFolder::experiment() const {
  return config::parse_experiment(path_ / kExperiment);
}

std::optional<data::Vocabulary> RunFolder::vocabulary() const {
  const fs::path path = path_ / kVocabulary;
  if (!fs::exists(path)) return std::nullopt;
  return data::Vocabulary::load(path);
}

Json RunFolder::info() const {
  const fs::path path = path_ / kInfo;
  try {
    return Json::parse(read_file(path));
  } catch (const Json::exception& error) {
    throw_run({.where = path.string(),
               .failed = "it is no JSON",
               .got = error.what(),
               .hint = "the run's folder was damaged"});
  }
}

void RunFolder::append_line(const Json& line) const {
  std::ofstream out(metrics(), std::ios::app);
  out << line.dump() << '\n' << std::flush;
  if (!out) throw_run({.where = metrics().string(), .failed = "it cannot be written"});
}

void RunFolder::append(const StepReport& report) const { append_line(to_json(report)); }
void RunFolder::append(const EvalReport& report) const { append_line(to_json(report)); }

void RunFolder::truncate_metrics(std::int64_t step) const {
  if (!fs::exists(metrics())) return;
  std::istringstream in(read_file(metrics()));
  std::string kept;
  for (std::string line; std::getline(in, line);) {
    const Json json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    // A line that was cut short when the process died is dropped too.
    if (json.is_object() && json.value("step", step + 1) <= step) kept += line + "\n";
  }
  write_file_atomic(metrics(), kept);
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

Json to_json(const StepReport& report) {
  Json json;
  json["kind"] = "step";
  json["step"] = report.step;
  json["loss"] = number(report.loss);
  json["grad_norm"] = number(report.grad_norm);
  json["lr"] = report.lr;
  json["tokens"] = report.tokens;
  json["seconds"] = report.seconds;
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

Json describe_run(const Runtime& runtime) {
  Json json;
  json["format"] = "mneme.run";
  json["revision"] = 1;
  json["mneme"] = MNEME_SDK_VERSION;
  json["commit"] = host_commit();
  json["dirty"] = is_host_dirty();
  json["torch"] = torch_version();
  json["device"] = describe(runtime.device());
  json["processor"] = processor_name();
  json["threads"] = threads();
  json["precision"] = config::to_word(runtime.precision());
  json["seed"] = runtime.experiment().train.seed;
  json["data"] = runtime.dataset()->describe();
  json["plugins"] = Json::array();
  for (const memory::TierIdentity& identity : runtime.stack().identities()) {
    json["plugins"].push_back(to_json(identity));
  }
  json["backbone_parameters"] = runtime.backbone_parameter_count();
  json["memory_parameters"] = runtime.memory_parameter_count();
  return json;
}

std::unique_ptr<Runtime> open_run(const fs::path& path, const RuntimeOptions& options,
                                  const std::optional<config::MemoryConfig>& memory) {
  const RunFolder folder = RunFolder::open(path);
  config::Experiment experiment = folder.experiment();
  if (memory) experiment = config::with_memory(experiment, *memory);
  if (!fs::exists(folder.checkpoint())) {
    throw_usage({.where = path.string(),
                 .failed = "the run has no checkpoint",
                 .expected = folder.checkpoint().filename().string(),
                 .hint = "let `mneme train` finish, or set train.save_every"});
  }
  const Checkpoint checkpoint = Checkpoint::open(folder.checkpoint());
  RuntimeOptions with_data = options;
  if (!with_data.precision) with_data.precision = experiment.eval.precision;
  if (!with_data.dataset) {
    data::DatasetOptions data;
    data.vocabulary = folder.vocabulary();
    with_data.dataset = std::make_shared<const data::Dataset>(experiment.data, data);
  }
  auto runtime = std::make_unique<Runtime>(experiment, with_data);
  static_cast<void>(checkpoint.load_weights(*runtime, experiment.memory.carry));
  return runtime;
}

}  // namespace mneme::train
