// Options of commands that compute, and those that say where plugins are.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "host/base/process/process.hpp"
#include "host/cli/arguments.hpp"

namespace mneme::cli {

// --threads N, --device cpu|cuda and --force.
struct MachineArguments {
  std::string device = "cpu";
  std::int64_t threads = 0;  // 0 = chosen for the machine and the model (tensor::set_threads)
  bool is_forced = false;

  void add(const Command& command);
  // Without --force, for commands that cannot be forced.
  void add_place(const Command& command);
  // For run::RuntimeOptions, of the device's own memory: no check with --force.
  [[nodiscard]] FreeMemorySource free_memory(c10::Device opened) const;
};

// --plugins DIR, repeatable.
void add_plugin_folders(const Command& command, std::vector<std::filesystem::path>& folders);

// The given folders, absolute, or the program's own (plugin::default_plugin_folder()) when none is
// given. Error (kUsage) when that does not exist.
[[nodiscard]] std::vector<std::string> plugin_folders(
    const std::vector<std::filesystem::path>& given);

}  // namespace mneme::cli
