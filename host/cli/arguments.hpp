// Arguments that several subcommands share.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "host/base/process.hpp"
#include "host/base/text.hpp"
#include "host/cli/streams.hpp"
#include "host/config/toml/toml.hpp"

namespace CLI {
class App;
}

namespace mneme::cli {

// Fails early, before long work, when the file that `option` names could not be written: its folder
// is missing, it is a folder, or a descriptor that is not open for writing. Error (kUsage).
void check_output_file(const std::string& option, const std::filesystem::path& path);

// --json FILE: the command's results for programs; "-" is stdout.
class JsonArgument {
 public:
  JsonArgument() = default;
  explicit JsonArgument(std::string path) : path_(std::move(path)) {}

  void add(CLI::App& command);
  [[nodiscard]] bool is_given() const { return !path_.empty(); }
  [[nodiscard]] const std::string& path() const { return path_; }
  // True when printed results would be mixed with the JSON.
  [[nodiscard]] bool is_stdout() const { return path_ == "-"; }
  // As check_output_file.
  void check() const;
  // Writes the JSON and a line end, when asked for. The results for people go to streams.out before
  // it: they are not lost when the file cannot be written. Error (kRun).
  void write(const Json& json, const Streams& streams) const;

 private:
  std::string path_;
};

// --set KEY=VALUE and --unset KEY, repeatable.
class SetArgument {
 public:
  void add(CLI::App& command);
  // Error (kUsage) for one that is no KEY=VALUE, or no KEY.
  [[nodiscard]] std::vector<config::Override> overrides() const;
  // The options as they were typed, each with a blank in front, for commands in messages.
  [[nodiscard]] std::string typed() const;

 private:
  std::vector<std::string> texts_;
  std::vector<std::string> removed_;
};

// --memory FILE, repeatable.
void add_memory_files(CLI::App& command, std::vector<std::filesystem::path>& files,
                      const std::string& help);

// --threads N, --device cpu|cuda and --force.
struct MachineArguments {
  std::string device = "cpu";
  std::int64_t threads = 0;  // 0 = as many as the machine has cores
  bool is_forced = false;

  void add(CLI::App& command);
  // For train::RuntimeOptions: no check with --force.
  [[nodiscard]] FreeMemorySource free_memory() const;
};

// Ranges of numbers on the command line, whose messages and help fit on a line. Not for other
// folders. CLI11 is included: for the .cpp files that add options.

inline constexpr std::int64_t kMaxExtent = 1'048'576;     // of a tensor, as in an experiment
inline constexpr std::int64_t kMaxCount = 1'000'000'000;  // of steps and the like

// An integer in [least, most]: "--lanes: expected an integer in [1, 1048576], got 0".
[[nodiscard]] CLI::Validator between(std::int64_t least, std::int64_t most);
// An integer of at least `least`.
[[nodiscard]] CLI::Validator at_least(std::int64_t least);

}  // namespace mneme::cli

namespace CLI {

// The folders that the plugin commands search.

class App;
}  // namespace CLI

namespace mneme::cli {

// --plugins DIR, repeatable.
void add_plugin_folders(CLI::App& command, std::vector<std::filesystem::path>& folders);

// The given folders, absolute, or the program's own (memory::default_plugin_folder()) when none is
// given. Error (kUsage) when that does not exist.
[[nodiscard]] std::vector<std::filesystem::path> plugin_folders(
    const std::vector<std::filesystem::path>& given);

}  // namespace mneme::cli
