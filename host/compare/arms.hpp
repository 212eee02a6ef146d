// The arms of a comparison: one experiment with several memories and settings.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "host/config/experiment.hpp"
#include "host/plugin/loader.hpp"

namespace mneme::compare {

// A memory to compare, and the experiment with it in place.
struct ArmSetup {
  std::string name;                   // also that of its run folders
  std::filesystem::path file;         // of the memory
  std::vector<std::string> settings;  // "KEY=VALUE" that only this arm has
  config::Experiment experiment;
  // The arm of which this is a trial, or the tuned form; "" = neither.
  std::string variant_of = {};
  // Of a trial: why it cannot be trained, such as a value that its memory refuses; "" = it can.
  std::string refused = {};
};

// A memory file as --memory takes it: "FILE" or "FILE,KEY=VALUE,...", the settings of this arm.
struct ArmRequest {
  std::filesystem::path memory;
  std::vector<config::Override> overrides = {};
  std::string name = {};  // of the arm; "" = after the file and the settings
};

// A word that is the name of a file is one. Error (kUsage) for settings that are no KEY=VALUE.
[[nodiscard]] ArmRequest parse_arm(const std::string& word);

// A key and the values that it takes, one arm each: "tier.0.rows=64,128,256". The key is one of
// [memory], or of another table with its name ("train.lr=1e-3,3e-3"). Commas inside brackets and
// quotes do not separate values. `option` is what was typed before it. Error (kUsage) for other
// words, for one value given twice.
struct Sweep {
  std::string key;  // with its table: "memory.tier.0.rows"
  std::vector<std::string> values;
};
[[nodiscard]] Sweep parse_sweep(std::string_view word, const std::string& option = "--sweep");

// Whether an arm has a key: a key of a tier, when its memory has the tier and the tier's plugin has
// the option; any other key. Error (kPlugin) of a plugin that cannot be loaded.
[[nodiscard]] bool has_key(const config::Experiment& experiment, const std::string& key,
                           plugin::PluginLoader& loader);

// What a key takes that an arm has, in the words of `mneme config keys` or `mneme plugins describe`:
// "an integer of at least 1"; "" = it is not known. Errors as has_key.
[[nodiscard]] std::string type_of_key(const config::Experiment& experiment, const std::string& key,
                                      plugin::PluginLoader& loader);

// What a setting adds to the name of an arm: ",rows=64" of memory.tier.0.rows.
[[nodiscard]] std::string name_part(const std::string& key, const std::string& value);

// Reads the experiment once with each memory; overrides apply to every arm. With sweeps, an arm
// that has a sweep's key becomes one arm for each value (with several sweeps, for each
// combination); an arm that does not have the key stays as it is. Arms are named after their files
// and settings, "my_memory,rows=64"; names that repeat get "#2" and so on. `is_locked` holds every
// arm to the lock file of its memory file (plugin::apply_lock_file). Error (kUsage) as
// config::parse_experiment, for no memory, and for a sweep whose key no arm has; Error (kPlugin) of
// a plugin that cannot be loaded.
[[nodiscard]] std::vector<ArmSetup> read_arms(const std::filesystem::path& experiment,
                                              const std::vector<ArmRequest>& memories,
                                              const std::vector<config::Override>& overrides,
                                              const std::vector<Sweep>& sweeps,
                                              plugin::PluginLoader& loader, bool is_locked = false);

// The arm's name as the name of a folder. A character becomes "_" when a file name may not hold it,
// when a shell would take the name apart at it, or when JSON cannot hold it (bytes that are no
// UTF-8); so does a "." at the beginning. A name of more than 120 bytes is cut.
[[nodiscard]] std::string folder_name(const std::string& arm);

}  // namespace mneme::compare
