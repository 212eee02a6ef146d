// A run that continues: on the same data, with the same plugins, on what machine.
#include <array>
#include <set>

#include "host/base/error.hpp"
#include "host/base/log.hpp"
#include "host/train/run_description.hpp"

namespace mneme::train {
namespace {

// What a run's numbers may depend on besides its experiment, data and plugins.
constexpr std::array kSurroundings = {"mneme",     "commit", "dirty",  "torch",
                                      "processor", "device", "threads"};

// Keys whose values may differ between equal data.
const std::set<std::string> kPlaces = {"files", "file", "path", "prepared", "vocabulary_file"};

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
    const Json nothing;
    Difference found = first_difference(before.value(key, nothing), now.value(key, nothing));
    if (found.keys.empty()) continue;
    found.keys.insert(found.keys.begin(), key);
    return found;
  }
  return {};
}

std::string text_of(const std::string& name, const Json& value) {
  return str(name, " = ", value.is_null() ? "nothing" : value.dump());
}

}  // namespace

void check_data(const Json& info, const Json& data) {
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

void check_plugins(const std::vector<memory::TierIdentity>& before,
                   const std::vector<memory::TierIdentity>& now) {
  for (std::size_t i = 0; i < std::min(before.size(), now.size()); ++i) {
    if (before[i].id == now[i].id && before[i].sha256 == now[i].sha256) continue;
    throw_plugin(
        {.where = str("tier ", i, ", ", now[i].path),
         .failed = "the plugin has changed since the run was saved",
         .expected = str(before[i].id, ' ', before[i].version, ", sha256 ", before[i].sha256),
         .got = str(now[i].id, ' ', now[i].version, ", sha256 ", now[i].sha256),
         .hint = "restore the file, or continue with --allow-changed-plugin: the numbers "
                 "may differ from those of an unbroken run"});
  }
}

void add_continuation(Json& info, const Json& now, std::int64_t step) {
  Json entry = {{"step", step}, {"time", utc_now()}};
  for (const char* const key : kSurroundings) entry[key] = now.at(key);
  entry["plugins"] = now.at("plugins");
  info["continued"].push_back(std::move(entry));
}

void warn_of_changes(const std::string& run, const Json& info, const Json& now) {
  const bool is_first = !info.contains("continued");
  const Json& before = is_first ? info : info.at("continued").back();
  std::vector<std::string> changes;
  for (const char* const key : kSurroundings) {
    if (before.value(key, Json()) == now.at(key)) continue;
    changes.push_back(
        str(key, " was ", before.value(key, Json()).dump(), " and is ", now.at(key).dump()));
  }
  if (changes.empty()) return;
  log_warning(run, ": ", join(changes, ", "),
              ": the numbers may differ in their last bits from those of an unbroken run");
}

}  // namespace mneme::train
