#include "host/run/checkpoint/checkpoint_format.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "host/base/error.hpp"
#include "host/base/integer.hpp"
#include "host/base/json_text.hpp"
#include "host/base/text.hpp"
#include "host/plugin/plugin_options.hpp"
#include "host/run/run_description.hpp"

namespace mneme::run {
namespace {

const std::string kRevision = "1";
// Whether a run can be resumed from the file; absent = it can.
const std::string kContents = "contents";
const std::string kWeightsOnly = "weights";

Json json_of(const ValidRecord& record) {
  Json json = {{"last_step", record.last_step},
               {"evaluations_since_best", record.evaluations_since_best}};
  if (record.best_step > 0) {
    json["best_step"] = record.best_step;
    json["best_loss"] = record.best_loss;
  }
  return json;
}

ValidRecord valid_record_of(const Json& json) {
  ValidRecord record;
  record.last_step = json_integer(json.at("last_step"));
  record.evaluations_since_best = json_integer(json.value("evaluations_since_best", Json(0)));
  if (!json.contains("best_step")) return record;
  record.best_step = json_integer(json.at("best_step"));
  record.best_loss = json.at("best_loss");
  return record;
}

Json json_of_logged(const RunProgress& progress) {
  return {{"curve_step", progress.curve_step},
          {"steps", progress.interval.steps},
          {"loss", progress.interval.loss},
          {"losses", progress.interval.losses}};
}

void read_logged(const Json& json, RunProgress& progress) {
  progress.curve_step = json_integer(json.at("curve_step"));
  progress.interval = {.steps = json_integer(json.at("steps")),
                       .loss = json.at("loss").get<double>(),
                       .losses = json.at("losses").get<std::map<std::string, double>>()};
}

// The options of the tiers as the experiment gives them, and over them the values that were
// written down: what a plugin's schema had as a default then may be another one today.
plugin::TierOptions options_of(const CheckpointMetadata& metadata, const Json& written) {
  const std::vector<config::TierConfig>& tiers = metadata.experiment.memory.tiers;
  plugin::TierOptions options;
  for (std::size_t i = 0; i < std::min(metadata.plugins.size(), tiers.size()); ++i) {
    options[str(i, ".", metadata.plugins[i].id)] = tiers[i].options;
  }
  for (const auto& [tier, table] : written.get<std::map<std::string, std::string>>()) {
    const config::Value values = plugin::parse_options(table, tier);
    for (const config::Member& member : values.members()) {
      options[tier].set(member.key, member.key_position, member.value);
    }
  }
  return options;
}

// Values of a file's metadata; any failure names the file and the key.
class Reader {
 public:
  explicit Reader(const SafetensorsFile& file) : file_(file) {}

  // f(text)
  template <typename F>
  void read(const std::string& key, F f) const {
    const std::string& text = file_.metadata_at(key);
    try {
      f(text);
    } catch (const std::exception& error) {
      throw_run({.where = str(file_.path().string(), ": metadata \"", key, "\""),
                 .failed = "it cannot be read",
                 .got = error.what(),
                 .hint = "the checkpoint was damaged or written by another program"});
    }
  }
  // f(JSON)
  template <typename F>
  void json(const std::string& key, F f) const {
    read(key, [&](const std::string& text) { f(parse_json_or_throw(text)); });
  }
  template <typename T>
  void count(const std::string& key, T& to) const {
    read(key, [&](const std::string& text) {
      const auto value = integer_of<std::int64_t>(text);
      if (!value || *value < 0) throw std::invalid_argument(text);
      to = static_cast<T>(*value);
    });
  }

 private:
  const SafetensorsFile& file_;
};

}  // namespace

std::map<std::string, std::string> text_of(const CheckpointMetadata& metadata) {
  const RunProgress& progress = metadata.progress;
  Json options = Json::object();
  for (const auto& [tier, table] : metadata.trained_options) {
    options[tier] = plugin::to_text(table);
  }
  std::map<std::string, std::string> out = {
      {"format", kFormat},
      {"revision", kRevision},
      {kContents, metadata.holds_whole_run ? "run" : kWeightsOnly},
      {"experiment", config::to_toml(metadata.experiment)},
      {"precision", metadata.precision},
      {"plugins", json_text(to_json(metadata.plugins))},
      {"options", json_text(options)},
      {"step", str(progress.step)},
      {"tokens", str(progress.tokens)},
      {"seconds", format_exact(progress.seconds)},
      {"data_position", json_text(progress.data_position)},
      {"noise_position", str(progress.noise_position)},
      {"metrics_lines", str(progress.metrics_lines)},
      {"logged", json_text(json_of_logged(progress))},
      {"valid", json_text(json_of(progress.valid))},
      {"state", json_text(metadata.state)}};
  if (!metadata.replaced.empty()) out["replaced"] = json_text(metadata.replaced);
  if (progress.tokens_read) out["tokens_read"] = str(*progress.tokens_read);
  return out;
}

void check_format(const SafetensorsFile& file) {
  const std::string format = file.metadata_or("format", "none");
  const std::string revision = file.metadata_or("revision", "none");
  if (format == kFormat && revision == kRevision) return;
  throw_run({.where = file.path().string(),
             .failed = "this is no checkpoint that mneme can read",
             .expected = str("metadata format = ", kFormat, ", revision = ", kRevision),
             .got = str("format = ", format, ", revision = ", revision),
             .hint = "name a checkpoint that `mneme train` wrote"});
}

CheckpointMetadata read_metadata(const SafetensorsFile& file) {
  const Reader reader(file);
  const auto has = [&](const char* key) { return file.metadata().contains(key); };
  CheckpointMetadata out;
  RunProgress& progress = out.progress;
  out.holds_whole_run = !has(kContents.c_str()) || file.metadata_at(kContents) != kWeightsOnly;
  reader.read("experiment", [&](const std::string& text) {
    out.experiment = config::parse_experiment_text(text, file.path().string());
  });
  reader.count("step", progress.step);
  reader.count("tokens", progress.tokens);
  // Older programs wrote none of "tokens_read", "logged", "options" and "replaced".
  progress.tokens_read.reset();
  if (has("tokens_read")) reader.count("tokens_read", progress.tokens_read.emplace());
  reader.count("noise_position", progress.noise_position);
  reader.count("metrics_lines", progress.metrics_lines);
  reader.read("seconds", [&](const std::string& text) { progress.seconds = std::stod(text); });
  reader.json("data_position",
              [&](const Json& json) { progress.data_position = json_integers(json); });
  reader.json("valid", [&](const Json& json) { progress.valid = valid_record_of(json); });
  if (has("logged")) reader.json("logged", [&](const Json& json) { read_logged(json, progress); });
  reader.json("plugins", [&](const Json& json) { out.plugins = read_identities(json); });
  out.trained_options = options_of(out, Json::object());
  if (has("options"))
    reader.json("options", [&](const Json& json) { out.trained_options = options_of(out, json); });
  if (has("replaced"))
    reader.json("replaced", [&](const Json& json) { out.replaced = json_integers(json); });
  reader.json("state", [&](const Json& json) { json.get_to(out.state); });
  out.precision = file.metadata_at("precision");
  return out;
}

}  // namespace mneme::run
