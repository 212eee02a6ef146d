// A plugin's file as checked before anything of it runs.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "host/plugin/file/elf_file.hpp"
#include "host/plugin/file/sealed_copy.hpp"
#include "mneme/plugin.h"

namespace mneme::plugin {

// The checked file: `elf.notes` point into `copy`.
struct PluginFile {
  std::string path;
  std::unique_ptr<SealedCopy> copy;
  ElfFile elf;
  mneme_note note;
};

// Copies a file and reads its headers and note; runs none of its code and maps none of it as code.
// Errors: Error(kPlugin) that starts with `where`.
[[nodiscard]] PluginFile open_plugin(const std::filesystem::path& path, const std::string& where);

// Whether this host can load the file: its ABI range, the host groups it cannot do without, its
// needed libraries and symbol versions, its entry symbol. Errors: as above.
void check_loadable(const PluginFile& file, const std::string& where);

// The first check of check_loadable alone: effective = min(host current, plugin target), refused
// when that is below either side's minimum. Returns the effective version.
std::uint32_t check_abi(std::uint32_t abi_min, std::uint32_t abi_target, const std::string& where);

// The range of ABI versions that this host speaks. While the major is 0, both are the same.
inline constexpr std::uint32_t kHostAbiMin = MNEME_ABI_VERSION;
inline constexpr std::uint32_t kHostAbiCurrent = MNEME_ABI_VERSION;

// One file of a folder: a plugin's note, or why it is none.
struct PluginEntry {
  std::string path;
  std::string file;                // its name in the folder
  std::optional<mneme_note> note;  // absent = `problem` says why
  std::string sha256;              // "" when absent
  std::string problem;             // with a note: why this host cannot load it; "" = it can
};

// Every "*.so" file of a folder, by name. Executes nothing. Error(kPlugin) when the folder cannot
// be read; what is wrong with a file stands in its entry.
[[nodiscard]] std::vector<PluginEntry> scan_folder(const std::filesystem::path& folder);

// The same for one file.
[[nodiscard]] PluginEntry describe(const std::filesystem::path& path);

}  // namespace mneme::plugin
