// mneme plugins lock
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "host/base/error.hpp"
#include "host/base/file/file.hpp"
#include "host/base/text.hpp"
#include "host/cli/arguments.hpp"
#include "host/cli/plugins/plugins.hpp"
#include "host/cli/streams.hpp"
#include "host/config/experiment.hpp"
#include "host/config/memory_file.hpp"
#include "host/plugin/plugin_lock.hpp"

namespace mneme::cli {
namespace {

namespace fs = std::filesystem;

struct LockArguments {
  std::vector<fs::path> files;
  SetArgument set;
  bool is_check = false;
  JsonArgument json;
};

// The [memory] of an experiment file or of a memory file, which holds nothing else.
config::MemoryConfig read_memory(const fs::path& file,
                                 const std::vector<config::Override>& overrides) {
  const config::Value root = config::read_memory_file(file);
  const bool is_memory = root.members().size() == 1 && root.find("memory") != nullptr;
  return is_memory ? config::parse_memory_file(file, overrides)
                   : config::parse_experiment(file, overrides).memory;
}

std::string tiers_text(const std::vector<plugin::LockedPlugin>& tiers) {
  std::string text;
  for (std::size_t i = 0; i < tiers.size(); ++i) {
    const plugin::LockedPlugin& tier = tiers[i];
    text += str("    tier ", i, ": ", tier.file, ": ", tier.id, ' ', tier.version, ", ABI ",
                tier.abi, "\n        sha256 ", tier.sha256, '\n');
    if (!tier.python.empty()) text += str("        ", tier.python, '\n');
  }
  return text.empty() ? "    a memory without plugins\n" : text;
}

Json json_of(const std::vector<plugin::LockedPlugin>& tiers) {
  Json list = Json::array();
  for (const plugin::LockedPlugin& tier : tiers) {
    list.push_back({{"file", tier.file},
                    {"id", tier.id},
                    {"version", tier.version},
                    {"abi", tier.abi},
                    {"sha256", tier.sha256}});
    if (!tier.python.empty()) list.back()["python"] = tier.python;
  }
  return list;
}

// False when the lock file says the same already; its time stays then.
bool write_lock(const fs::path& file, const std::vector<plugin::LockedPlugin>& tiers) {
  const fs::path lock = plugin::lock_file_of(file);
  const std::string text = plugin::lock_text(tiers, file);
  // What is no lock file is not replaced: reading it throws.
  const bool is_there = read_input([&] { return plugin::read_lock(file).has_value(); });
  if (is_there && read_file(lock) == text) return false;
  write_file_atomic(lock, text);
  return true;
}

std::vector<std::string> differences_from_lock(const fs::path& file,
                                               const config::MemoryConfig& memory) {
  const std::optional<plugin::PluginLock> lock = plugin::read_lock(file);
  if (lock) return plugin::lock_differences(memory, *lock);
  return {str(plugin::lock_file_of(file).string(), ": there is no such file; mneme plugins lock ",
              shell_word(file.string()), " writes it")};
}

// Locks one file, or compares it with its lock. Differences go to `all`.
Json lock_one(const LockArguments& arguments, const fs::path& file, const Streams& streams,
              std::vector<std::string>& all) {
  const fs::path lock = plugin::lock_file_of(file);
  const config::MemoryConfig memory =
      read_input([&] { return read_memory(file, arguments.set.overrides()); });
  std::ostream& out = arguments.json.text(streams);
  Json json = {{"file", file.string()}, {"lock", lock.string()}};
  if (arguments.is_check) {
    const std::vector<std::string> differences =
        read_input([&] { return differences_from_lock(file, memory); });
    if (differences.empty()) out << lock.string() << ": agrees\n";
    all.insert(all.end(), differences.begin(), differences.end());
    json["differences"] = differences;
    return json;
  }
  const std::vector<plugin::LockedPlugin> tiers = plugin::find_plugins(memory);
  const bool is_written = write_lock(file, tiers);
  out << lock.string() << (is_written ? ": written\n" : ": unchanged\n")
      << fit_lines(tiers_text(tiers), streams.out_width);
  json["written"] = is_written;
  json["tiers"] = json_of(tiers);
  return json;
}

int lock_plugins(const LockArguments& arguments, const Streams& streams) {
  arguments.json.check();
  for (const fs::path& file : arguments.files) {  // nothing is written where one of them is wrong
    const config::MemoryConfig memory =
        read_input([&] { return read_memory(file, arguments.set.overrides()); });
    if (!arguments.is_check) static_cast<void>(plugin::find_plugins(memory));
  }
  std::vector<std::string> differences;
  Json files = Json::array();
  for (const fs::path& file : arguments.files) {
    files.push_back(lock_one(arguments, file, streams, differences));
  }
  arguments.json.write({{"format", "mneme-lock"}, {"files", std::move(files)}}, streams);
  if (!differences.empty()) throw Error(ErrorKind::kRun, join(differences, "\n"));
  return 0;
}

}  // namespace

void add_plugins_lock(const Command& plugins) {
  const Command command =
      plugins.subcommand("lock",
                         "Write the checksums of an experiment's plugin files into a file beside "
                         "it, which --locked holds later commands to; imports a .py file, and "
                         "runs no code of another");
  const auto arguments = std::make_shared<LockArguments>();
  command.option("EXP", arguments->files, "", "Experiment files and memory files", {required});
  command.flag("--check", arguments->is_check,
               "Write nothing: compare, and end with exit status 1 when something differs");
  arguments->set.add(command);
  arguments->json.add(command);
  command.examples(
      {"mneme plugins lock my_memory.toml", "mneme plugins lock my_memory.toml --check"});
  command.runs(arguments, &lock_plugins);
}

}  // namespace mneme::cli
