#include "host/run/run_description.hpp"

#include <algorithm>
#include <array>
#include <ctime>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "host/base/error.hpp"
#include "host/base/log.hpp"
#include "host/eval/result.hpp"
#include "host/plugin/python/wrap.hpp"
#include "host/run/host_commit.hpp"
#include "host/tensor/device.hpp"
#include "mneme/abi.h"

namespace mneme::run {
namespace {

void add_numbers(Json& json, const char* key, const std::map<std::string, double>& values) {
  for (const auto& [name, value] : values) json[key][name] = number_or_null(value);
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
  Json json = {{"format", "mneme.run"},
               {"revision", 1},
               {"mneme", MNEME_SDK_VERSION},
               {"commit", host_commit()},
               {"dirty", is_host_dirty()},
               {"torch", tensor::torch_version()},
               {"device", tensor::describe(runtime.device())},
               {"processor", tensor::processor_name()},
               {"threads", tensor::threads()},
               {"precision", config::to_word(runtime.precision())},
               {"seed", runtime.experiment().train.seed},
               {"data", runtime.dataset()->describe()},
               {"plugin_folders", plugin_folders(runtime.experiment().memory)},
               {"plugins", to_json(runtime.stack().identities())}};
  if (const auto& source = runtime.weights_source()) {
    json["initial_weights"] = {{"file", source->file.string()}, {"sha256", source->sha256}};
  }
  json["backbone_parameters"] = runtime.backbone_parameter_count();
  json["memory_parameters"] = runtime.memory_parameter_count();
  return json;
}

Json to_json(const std::vector<memory::TierIdentity>& plugins) {
  Json list = Json::array();
  for (const memory::TierIdentity& one : plugins) {
    list.push_back({{"id", one.id},
                    {"version", one.version},
                    {"path", one.path},
                    {"sha256", one.sha256},
                    {"compiler", one.compiler},
                    {"commit", one.commit},
                    {"dirty", one.is_dirty}});
    if (!one.python.empty()) list.back()["python"] = one.python;
    if (!one.defaults.empty()) list.back()["defaults"] = one.defaults;
  }
  return list;
}

std::vector<memory::TierIdentity> read_identities(const Json& list) {
  std::vector<memory::TierIdentity> plugins;
  for (const Json& json : list) {
    memory::TierIdentity& one = plugins.emplace_back();
    one.id = json.at("id");
    one.version = json.at("version");
    one.path = json.at("path");
    one.sha256 = json.value("sha256", std::string());  // runs of older versions may lack it
    one.compiler = json.at("compiler");
    one.commit = json.at("commit");
    one.is_dirty = json.at("dirty");
    one.python = json.value("python", plugin::PythonVersions());
    one.defaults = json.value("defaults", std::map<std::string, std::string>());
  }
  return plugins;
}

std::vector<memory::TierIdentity> read_plugins(const Json& info) {
  return read_identities(info.at("plugins"));
}

Json to_json(const StepReport& report) {
  Json json = {{"kind", "step"},
               {"step", report.step},
               {"loss", number_or_null(report.loss)},
               {"grad_norm", number_or_null(report.grad_norm)},
               {"lr", report.lr},
               {"tokens", report.tokens},
               {"seconds", report.seconds}};
  if (report.tokens_read) json["tokens_read"] = *report.tokens_read;
  if (report.mfu) json["mfu"] = *report.mfu;
  if (report.product_flops) json["product_flops_per_second"] = *report.product_flops;
  if (report.peak_device_bytes) json["peak_device_bytes"] = *report.peak_device_bytes;
  add_numbers(json, "rates", report.rates);
  add_numbers(json, "losses", report.losses);
  add_numbers(json, "metrics", report.metrics);
  return json;
}

Json to_json(const EvalReport& report) {
  return {{"kind", "eval"},
          {"step", report.step},
          {"split", data::to_word(report.split)},
          {"best", report.is_best},
          {"result", eval::to_json(report.result)}};
}

// --- Comparing the data, plugins and machine of a run with those now in use ---

namespace {

// What a run's numbers may depend on besides its experiment, data and plugins.
constexpr std::array kSurroundings = {"mneme",     "commit", "dirty",  "torch",
                                      "processor", "device", "threads"};

// Keys whose values may differ between equal data.
const std::set<std::string> kPlaces = {"files", "file", "path", "prepared", "vocabulary_file"};

// Keys that runs of older versions may lack.
const std::set<std::string> kChecksums = {"sha256", "vocabulary_sha256"};

struct Difference {
  std::vector<std::string> keys;  // empty = none
  Json before, now;
};

// The first difference, in the order of the keys.
Difference first_difference(const Json& before, const Json& now) {
  if (before == now) return {};
  if (!before.is_object() || !now.is_object()) return {{""}, before, now};
  Json all = before;
  all.update(now);
  for (const auto& [key, value] : all.items()) {
    if (kPlaces.contains(key)) continue;
    if (kChecksums.contains(key) && !before.contains(key)) continue;
    const Json nothing;
    Difference found = first_difference(before.value(key, nothing), now.value(key, nothing));
    if (found.keys.empty()) continue;
    found.keys.insert(found.keys.begin(), key);
    return found;
  }
  return {};
}

// What the run's last process wrote of itself.
const Json& last_description(const Json& info) {
  return info.contains("continued") ? info.at("continued").back() : info;
}

std::string text_of(const std::string& name, const Json& value) {
  return str(name, " = ", value.is_null() ? "nothing" : value.dump());
}

// Of an object; null for another value and for a key that is not there.
Json member(const Json& json, const std::string& key) {
  return json.is_object() ? json.value(key, Json()) : Json();
}

// A text as it is; a damaged file may have anything in its place.
std::string plain_text(const Json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

// "sha256 0123..." of a split, "alphabet = 8" of a setting.
std::string value_text(const std::string& key, const Json& value) {
  const Json sum = member(value, "sha256");
  return sum.is_null() ? text_of(key, value) : str("sha256 ", plain_text(sum));
}

std::string part_of(const std::string& key, const Json& value) {
  const Json files = member(value, "files");
  if (!files.is_array() || files.empty()) return "data." + key;
  return str("data.", key, " (", files[0].get<std::string>(), ')');
}

// One entry of Dataset::describe() against the run's; a split's checksum comes first.
std::optional<RunDifference> data_difference(const std::string& key, const Json& before,
                                             const Json& now) {
  const std::string part = part_of(key, now);
  // A split that the run did not have, or weights that were imported.
  if (before.is_null()) return RunDifference{part, "", value_text(key, now), /*is_chosen=*/true};
  const Json sum = member(now, "sha256");
  if (!sum.is_null() && !before.contains("sha256")) {
    return RunDifference{part, "", value_text(key, now)};
  }
  if (!sum.is_null() && sum != before.at("sha256")) {
    return RunDifference{part, value_text(key, before), value_text(key, now)};
  }
  const Difference found = first_difference(before, now);
  if (found.keys.empty()) return std::nullopt;
  const std::string& name = found.keys.size() > 1 ? found.keys[found.keys.size() - 2] : key;
  return RunDifference{part, text_of(name, found.before), text_of(name, found.now)};
}

std::string plugin_text(const memory::TierIdentity& plugin) {
  return str(plugin.version, ", sha256 ", plugin.sha256);
}

// The same with its id.
std::string named_plugin_text(const memory::TierIdentity& plugin) {
  return str(plugin.id, ' ', plugin.sha256.empty() ? plugin.version : plugin_text(plugin));
}

std::optional<RunDifference> plugin_difference(const std::vector<memory::TierIdentity>& trained,
                                               const memory::TierIdentity& used) {
  const std::string part = str("plugin ", used.id, " (", used.path, ')');
  std::vector<std::string> others;
  bool is_recorded = true;
  for (const memory::TierIdentity& one : trained) {
    if (one.id != used.id) continue;
    if (one.sha256 == used.sha256) return std::nullopt;
    is_recorded = is_recorded && !one.sha256.empty();
    others.push_back(plugin_text(one));
  }
  if (!others.empty()) {
    return RunDifference{part, is_recorded ? others.front() : "", plugin_text(used)};
  }
  // Of another id: the versions alone could not be told apart.
  std::vector<std::string> ids;
  for (const memory::TierIdentity& one : trained) ids.push_back(named_plugin_text(one));
  return RunDifference{part, ids.empty() ? "no memory" : join(ids, "; "), named_plugin_text(used),
                       /*is_chosen=*/true};
}

}  // namespace

std::string RunDifference::text() const {
  if (expected.empty()) {
    return str(part, ": the run has no record of it, it cannot be checked; it has ", got);
  }
  return str(part, " is not what the run was trained with: expected ", expected, ", got ", got);
}

Json to_json(const std::vector<RunDifference>& differences) {
  Json json = Json::array();
  for (const RunDifference& one : differences) {
    json.push_back({{"part", one.part},
                    {"expected", one.expected.empty() ? Json() : Json(one.expected)},
                    {"got", one.got},
                    {"chosen", one.is_chosen}});
  }
  return json;
}

void log_differences(const std::string& where, const std::vector<RunDifference>& differences) {
  for (const RunDifference& one : differences) {
    log(one.is_chosen ? LogLevel::kInfo : LogLevel::kWarning, str(where, ": ", one.text()));
  }
}

void check_vocabulary(const std::string& where, const Json& info, const std::string& sha256) {
  const Json recorded = member(member(info, "data"), "vocabulary_sha256");
  if (recorded.is_null()) {
    log_warning(where, ": run.json has no checksum of the vocabulary, it cannot be checked");
    return;
  }
  if (recorded == sha256) return;
  throw_usage({.where = where,
               .failed = "the vocabulary is not the one that the run was trained with: its ids "
                         "mean other symbols",
               .expected = str("sha256 ", plain_text(recorded)),
               .got = str("sha256 ", sha256),
               .hint = "restore the run's vocabulary.json, or remove it: it is then made from "
                       "[data] again"});
}

std::vector<RunDifference> data_differences(const Json& info, const Json& data) {
  std::vector<RunDifference> out;
  const Json recorded = member(info, "data");
  for (const auto& [key, value] : data.items()) {
    if (kPlaces.contains(key)) continue;
    if (key == "vocabulary_sha256") {
      // Without a recorded checksum, reading the vocabulary has already warned.
      if (member(recorded, key).is_null()) continue;
      check_vocabulary("data.vocabulary", info, value.get<std::string>());
    } else if (auto difference = data_difference(key, member(recorded, key), value)) {
      out.push_back(std::move(*difference));
    }
  }
  return out;
}

std::vector<RunDifference> model_differences(const config::Value& trained,
                                             const config::Value& used) {
  std::map<std::string, std::string> before;
  for (const config::FlatKey& one : config::flat_keys(trained)) before[one.key] = one.value.toml();
  std::vector<RunDifference> out;
  for (const auto& [key, value] : config::flat_keys(used)) {
    if (!key.starts_with("model.") || config::is_choice_of_kernels(key)) continue;
    const auto found = before.find(key);
    if (found != before.end() && found->second != value.toml())
      out.push_back({key, found->second, value.toml(), /*is_chosen=*/true});
  }
  return out;
}

std::vector<RunDifference> plugin_differences(const std::vector<memory::TierIdentity>& trained,
                                              const std::vector<memory::TierIdentity>& used) {
  std::vector<RunDifference> out;
  for (const memory::TierIdentity& one : used) {
    if (auto difference = plugin_difference(trained, one)) out.push_back(std::move(*difference));
  }
  for (const memory::TierIdentity& one : trained) {
    if (std::ranges::any_of(used, [&](const auto& other) { return other.id == one.id; })) continue;
    out.push_back({str("plugin ", one.id), plugin_text(one), "a memory without it", true});
  }
  return out;
}

void check_data(const Json& info, const Json& data) {
  for (const auto& [key, value] : data.items()) {
    const Json before = member(info.at("data"), key);
    if (!value.contains("sha256") || !before.is_object() || before.contains("sha256")) continue;
    log_warning(RunDifference{part_of(key, value), "", value_text(key, value)}.text());
  }
  const Difference found = first_difference(info.at("data"), data);
  if (found.keys.empty()) return;
  // keys: the split, the number's name, "".
  const std::string& split = found.keys.front();
  const Json files =
      data.value(split, Json()).is_object() ? data[split].value("files", Json()) : Json();
  std::string where = "data." + split;
  if (files.is_array() && !files.empty()) where += str(" (", files[0].get<std::string>(), ")");
  const std::string& name = found.keys.size() > 2 ? found.keys[found.keys.size() - 2] : split;
  throw_usage({.where = where,
               .failed = "the data have changed since the run began",
               .expected = text_of(name, found.before),
               .got = text_of(name, found.now),
               .hint = "restore the data, or start a new run"});
}

namespace {

// A memory in Python whose own file is the same. Runs of older versions, and plugin files made of it,
// have no versions.
void check_python(std::size_t tier, const memory::TierIdentity& before,
                  const memory::TierIdentity& now, bool is_locked) {
  if (before.python.empty() || now.python.empty() || before.python == now.python) return;
  const ErrorText text{.where = str("tier ", tier, ", ", now.path),
                       .failed = "the memory runs with other versions than the run was saved with",
                       .expected = plugin::versions_text(before.python),
                       .got = plugin::versions_text(now.python),
                       .hint = is_locked ? "install those, or continue without --locked"
                                         : "the numbers may differ from those of an unbroken run"};
  if (is_locked) throw_plugin(text);
  log_warning(text.compose());
}

}  // namespace

void check_plugins(const std::vector<memory::TierIdentity>& before,
                   const std::vector<memory::TierIdentity>& now, bool is_locked) {
  for (std::size_t i = 0; i < std::min(before.size(), now.size()); ++i) {
    if (before[i].id == now[i].id && before[i].sha256 == now[i].sha256) {
      check_python(i, before[i], now[i], is_locked);
      continue;
    }
    if (before[i].id == now[i].id && before[i].sha256.empty()) {
      log_warning("tier ", i, ", ", now[i].path,
                  ": the run has no checksum of the plugin, it "
                  "cannot be checked");
      continue;
    }
    throw_plugin(
        {.where = str("tier ", i, ", ", now[i].path),
         .failed = "the plugin has changed since the run was saved",
         .expected = str(before[i].id, ' ', before[i].version, ", sha256 ", before[i].sha256),
         .got = str(now[i].id, ' ', now[i].version, ", sha256 ", now[i].sha256),
         .hint = "restore the file, or continue with --allow-changed-plugin, without --locked: the "
                 "numbers may differ from those of an unbroken run"});
  }
}

plugin::PluginLock plugin_lock(const std::string& where,
                               const std::vector<memory::TierIdentity>& plugins) {
  plugin::PluginLock lock{.source = where, .hint = "leave out --locked", .tiers = {}};
  for (const memory::TierIdentity& plugin : plugins) {
    lock.tiers.push_back({.id = plugin.id,
                          .version = plugin.version,
                          .sha256 = plugin.sha256,
                          .python = plugin::versions_text(plugin.python)});
  }
  return lock;
}

void add_continuation(Json& info, const Json& now, std::int64_t step) {
  Json entry = {{"step", step}, {"time", utc_now()}};
  for (const char* const key : kSurroundings) entry[key] = now.at(key);
  entry["plugins"] = now.at("plugins");
  info["continued"].push_back(std::move(entry));
}

std::int64_t threads_of(const Json& info) {
  const Json threads = member(last_description(info), "threads");
  return threads.is_number_unsigned() && threads > 0 && threads <= 4096
             ? threads.get<std::int64_t>()
             : 0;
}

void warn_of_changes(const std::string& where, const Json& info, const Json& now) {
  const Json& before = last_description(info);
  std::vector<std::string> changes;
  for (const char* const key : kSurroundings) {
    if (before.value(key, Json()) == now.at(key)) continue;
    changes.push_back(
        str(key, " was ", before.value(key, Json()).dump(), " and is ", now.at(key).dump()));
  }
  if (changes.empty()) return;
  log_warning(where, ": ", join(changes, ", "),
              ": the numbers may differ in their last bits from those of an unbroken run");
}

}  // namespace mneme::run
