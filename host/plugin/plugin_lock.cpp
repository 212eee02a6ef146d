#include "host/plugin/plugin_lock.hpp"

#include <algorithm>
#include <system_error>
#include <utility>

#include "host/base/error.hpp"
#include "host/base/text.hpp"
#include "host/config/toml/schema.hpp"
#include "host/plugin/file/note.hpp"
#include "host/plugin/file/plugin_file.hpp"
#include "host/plugin/plugin_search.hpp"
#include "host/plugin/python/wrap.hpp"

namespace mneme::plugin {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kLockRevision = 1;

std::string tier_name(std::size_t tier, const config::TierConfig& config) {
  return str("tier ", tier, ", plugin '", config.plugin, "'");
}

// "a memory of 1 tier".
std::string memory_text(std::size_t tiers) {
  return str("a memory of ", tiers, tiers == 1 ? " tier" : " tiers");
}

std::string lock_command(const fs::path& file) {
  return "mneme plugins lock " + shell_word(file.string());
}

// "org.example.cache 1.2.0, sha256 3f2a...".
std::string build_text(const LockedPlugin& plugin) {
  return str(plugin.id, ' ', plugin.version, ", sha256 ", plugin.sha256);
}

std::string text_of(config::Reader& reader, const char* key, const std::string& what) {
  return reader.require(key, what) ? reader.text(key, "") : "";
}

LockedPlugin read_tier(config::Reader reader) {
  LockedPlugin tier;
  tier.file = text_of(reader, "file", "the name of the plugin's file");
  tier.id = text_of(reader, "id", "the plugin's id");
  tier.version = text_of(reader, "version", "the plugin's version");
  tier.abi = text_of(reader, "abi", "the ABI version that the plugin was built for");
  tier.sha256 = text_of(reader, "sha256", "the file's checksum");
  const bool is_hex = tier.sha256.find_first_not_of("0123456789abcdef") == std::string::npos;
  tier.python = reader.text("python", "");
  const config::Value* const written = reader.value("sha256");
  if (written != nullptr && written->kind() == config::Kind::kString &&
      (tier.sha256.size() != 64 || !is_hex)) {
    reader.problem("sha256", {.expected = "64 hexadecimal digits in lower case",
                              .got = config::toml_string(tier.sha256)});
  }
  reader.finish();
  return tier;
}

// Of a memory in Python whose own file is the locked one; "" = none.
std::string python_difference(const PluginEntry& found, const LockedPlugin& locked,
                              const PluginLock& lock, const std::string& where) {
  const std::string versions = versions_text(found.python);
  if (locked.python.empty() || versions.empty() || versions == locked.python) return "";
  return ErrorText{.where = str(where, " (", found.path, ')'),
                   .failed = "runs with other versions than the locked ones",
                   .expected = locked.python,
                   .got = versions,
                   .hint = "install those, or, if the change is meant, " + lock.hint}
      .compose();
}

// The difference of one tier that both have; "" = none.
std::string difference_of(const config::MemoryConfig& memory, std::size_t tier,
                          const PluginLock& lock) {
  const config::TierConfig& config = memory.tiers[tier];
  const LockedPlugin& locked = lock.tiers[tier];
  const std::string where = str(lock.source, ": ", tier_name(tier, config));
  if (locked.sha256.empty()) {
    return ErrorText{.where = where,
                     .failed = "the file cannot be checked",
                     .expected = "a checksum of the plugin " + locked.id,
                     .got = "none",
                     .hint = lock.hint}
        .compose();
  }
  if (!config.sha256.empty() && config.sha256 != locked.sha256) {
    return ErrorText{.where = where,
                     .failed = "the tier's key sha256 pins another file",
                     .expected = build_text(locked),
                     .got = config.sha256,
                     .hint = "remove the key, or, if its file is meant, " + lock.hint}
        .compose();
  }
  const PluginEntry found =
      describe(find_plugin(config.plugin, folders_to_search(memory.plugins), locked.sha256, where));
  if (found.sha256 == locked.sha256) return python_difference(found, locked, lock, where);
  return ErrorText{
      .where = str(where, " (", found.path, ')'),
      .failed = "is not the locked file",
      .expected = build_text(locked),
      .got = found.note ? str(found.note->id, ' ', found.note->version, ", sha256 ", found.sha256)
                        : found.problem,
      .hint = "restore that file, or, if the change is meant, " + lock.hint}
      .compose();
}

}  // namespace

fs::path lock_file_of(const fs::path& file) {
  fs::path lock = file;
  if (lock.extension() == ".toml") lock.replace_extension();
  return lock += ".lock";
}

std::vector<LockedPlugin> find_plugins(const config::MemoryConfig& memory) {
  std::vector<LockedPlugin> found;
  for (std::size_t tier = 0; tier < memory.tiers.size(); ++tier) {
    const config::TierConfig& config = memory.tiers[tier];
    const std::string where = str(config.position.text(), ": ", tier_name(tier, config));
    const PluginFile file =
        find_loadable(config.plugin, folders_to_search(memory.plugins), config.sha256, where);
    found.push_back({.file = fs::path(file.path).filename().string(),
                     .id = file.note.id,
                     .version = file.note.version,
                     .abi = abi_text(file.note.abi_target),
                     .sha256 = file.copy->sha256(),
                     .python = versions_text(file.python)});
  }
  return found;
}

std::string lock_text(const std::vector<LockedPlugin>& tiers, const fs::path& file) {
  std::string text =
      str("# The plugin files of ", file.filename().string(),
          ", one [[tier]] for each of its [[memory.tier]], in order.\n"
          "# Written by mneme plugins lock; the option --locked refuses other files.\n"
          "revision = ",
          kLockRevision, '\n');
  for (const LockedPlugin& tier : tiers) {
    const auto line = [&](const char* key, const std::string& value) {
      text += str(key, " = ", config::toml_string(value), '\n');
    };
    text += "\n[[tier]]\n";
    line("file", tier.file);
    line("id", tier.id);
    line("version", tier.version);
    line("abi", tier.abi);
    line("sha256", tier.sha256);
    if (!tier.python.empty()) line("python", tier.python);
  }
  return text;
}

std::optional<PluginLock> read_lock(const fs::path& file) {
  const fs::path path = lock_file_of(file);
  std::error_code ignored;
  if (!fs::exists(fs::symlink_status(path, ignored))) return std::nullopt;
  PluginLock lock{.source = path.string(),
                  .hint = str(lock_command(file), " locks the files as they are now"),
                  .tiers = {}};
  try {
    const config::Value root = config::parse_toml_file(path);
    config::Problems problems;
    config::Reader reader(root, problems);
    if (reader.require("revision", "the lock file's revision, 1")) {
      static_cast<void>(reader.integer("revision", kLockRevision, {kLockRevision, kLockRevision}));
    }
    for (const config::Value* table : reader.tables("tier")) {
      lock.tiers.push_back(read_tier(reader.inner(*table)));
    }
    reader.finish();
    problems.throw_if_any();
  } catch (const Error& error) {
    throw Error(
        error.kind(), error.what(),
        str("if it is a damaged lock file, remove it; ", lock_command(file), " writes another"));
  }
  return lock;
}

std::vector<std::string> lock_differences(const config::MemoryConfig& memory,
                                          const PluginLock& lock) {
  std::vector<std::string> all;
  const std::size_t tiers = std::max(memory.tiers.size(), lock.tiers.size());
  for (std::size_t tier = 0; tier < tiers; ++tier) {
    std::string one;
    if (tier >= lock.tiers.size()) {
      one = ErrorText{.where = str(lock.source, ": ", tier_name(tier, memory.tiers[tier])),
                      .failed = "the plugin is not locked",
                      .expected = memory_text(lock.tiers.size()),
                      .got = memory_text(memory.tiers.size()),
                      .hint = "if the tier is meant, " + lock.hint}
                .compose();
    } else if (tier >= memory.tiers.size()) {
      one = ErrorText{.where = str(lock.source, ": tier ", tier),
                      .failed = "the memory has no such tier",
                      .expected = build_text(lock.tiers[tier]),
                      .got = memory_text(memory.tiers.size()),
                      .hint = "if it is meant, " + lock.hint}
                .compose();
    } else {
      one = difference_of(memory, tier, lock);
    }
    if (!one.empty()) all.push_back(std::move(one));
  }
  return all;
}

void apply_lock(config::MemoryConfig& memory, const PluginLock& lock) {
  if (memory.tiers.empty()) return;  // it loads nothing
  const std::vector<std::string> differences = lock_differences(memory, lock);
  if (!differences.empty()) throw_usage(join(differences, "\n"));
  for (std::size_t tier = 0; tier < memory.tiers.size(); ++tier) {
    memory.tiers[tier].locked_sha256 = lock.tiers[tier].sha256;
  }
}

void apply_lock_file(config::MemoryConfig& memory, const fs::path& file) {
  if (memory.tiers.empty()) return;
  const std::optional<PluginLock> lock = read_lock(file);
  if (!lock) {
    throw_usage({.where = "--locked " + file.string(),
                 .failed = "its plugins are not locked",
                 .expected = "the lock file " + lock_file_of(file).string(),
                 .got = "no such file",
                 .hint = str(lock_command(file), " writes it, with the files as they are now")});
  }
  apply_lock(memory, *lock);
}

config::Experiment read_experiment(const fs::path& file,
                                   const std::vector<config::Override>& overrides,
                                   const std::optional<fs::path>& memory, bool is_locked) {
  config::Experiment experiment = config::parse_experiment(file, overrides, memory);
  if (is_locked) apply_lock_file(experiment.memory, memory.value_or(file));
  return experiment;
}

}  // namespace mneme::plugin
