// Lock files: which plugin files the tiers of a memory have to be (docs/abi.md, "Lock files").
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "host/config/experiment.hpp"

namespace mneme::plugin {

// The plugin file of one tier.
struct LockedPlugin {
  std::string file = {};  // its name, without folders
  std::string id = {};
  std::string version = {};
  std::string abi = {};     // that it was built for: "0.3"
  std::string sha256 = {};  // 64 lower-case hexadecimal digits; "" = not known
  std::string python = {};  // versions that a memory in Python runs with; "" = not known
};

// What a memory is held to.
struct PluginLock {
  std::string source;               // who asks for the files: the lock file, or a run
  std::string hint;                 // what to do when other files are meant
  std::vector<LockedPlugin> tiers;  // in the order of the memory
};

// The lock file of an experiment or memory file: "NAME.lock" beside "NAME.toml".
[[nodiscard]] std::filesystem::path lock_file_of(const std::filesystem::path& file);

// The file of each tier, found as loading finds it. Runs no code of a plugin. Errors: as
// find_loadable, which is given the tier's key sha256.
[[nodiscard]] std::vector<LockedPlugin> find_plugins(const config::MemoryConfig& memory);

// The content of the lock file of `file`; equal plugins give equal text.
[[nodiscard]] std::string lock_text(const std::vector<LockedPlugin>& tiers,
                                    const std::filesystem::path& file);

// The lock file of `file`; absent when there is no such file. Error (kUsage | kRun) naming the lock
// file, with line and column, when it cannot be read as one.
[[nodiscard]] std::optional<PluginLock> read_lock(const std::filesystem::path& file);

// The differences between the plugins of a memory and the locked ones, a complete message for each
// tier; empty when all agree. Where several builds fit a tier's name, the locked one is taken.
// Error (kPlugin) as find_plugin.
[[nodiscard]] std::vector<std::string> lock_differences(const config::MemoryConfig& memory,
                                                        const PluginLock& lock);

// Holds a memory to a lock: from now on its tiers load these files and no others
// (TierConfig::pin). A memory without tiers agrees with every lock. Error (kUsage) with a line for
// each difference; Error (kPlugin) as above.
void apply_lock(config::MemoryConfig& memory, const PluginLock& lock);

// The same with the lock file of `file`, from which the memory was read. Error (kUsage) when there
// is none; a memory without tiers needs none.
void apply_lock_file(config::MemoryConfig& memory, const std::filesystem::path& file);

// The experiment of a file, with the memory file `memory` in place of its [memory]; with `is_locked`
// held to the lock file of the one that its memory is from. Errors: as config::parse_experiment and
// apply_lock_file.
[[nodiscard]] config::Experiment read_experiment(const std::filesystem::path& file,
                                                 const std::vector<config::Override>& overrides,
                                                 const std::optional<std::filesystem::path>& memory,
                                                 bool is_locked);

}  // namespace mneme::plugin
