// Finds the file of a plugin that an experiment names.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "host/plugin/file/plugin_file.hpp"

namespace mneme::plugin {

// Who named the folders of a search: a memory, or the option --plugins. Errors say what to change
// there.
enum class FoldersFrom { kMemory, kOption };

// Finds a plugin in the folders of [memory] plugins: by file name (with or without ".so"), or,
// where no file has it, by the id in the files' notes. Of several files with the same bytes that of
// the first folder is taken; of several with different bytes the one that `sha256` pins ("" = none
// is pinned). Nothing outside the folders is taken: no current folder, no environment, no system
// search, and the program's own folder only where it is one of them. A memory in Python may be named
// by the absolute path of its file ("/home/me/my_memory.py"). Returns the file's absolute path with
// links resolved.
//
// Errors: Error(kPlugin) that starts with `where`: not found (lists folders, the plugins in them
// and the nearest name, or says that the program's own folder has it), a path instead of a name,
// several builds of which none is pinned, a link that leaves its folder, a folder on the way that
// every user may write.
[[nodiscard]] std::filesystem::path find_plugin(const std::string& name,
                                                const std::vector<std::string>& folders,
                                                const std::string& sha256, const std::string& where,
                                                FoldersFrom from = FoldersFrom::kMemory);

// Finds a plugin, opens its file and checks that it has the pinned checksum and that this host can
// load it. Runs none of its code. Errors: as find_plugin, open_plugin and check_loadable, also for a
// file that `sha256` does not pin.
[[nodiscard]] PluginFile find_loadable(const std::string& name,
                                       const std::vector<std::string>& folders,
                                       const std::string& sha256, const std::string& where,
                                       FoldersFrom from = FoldersFrom::kMemory);

// The paths at which find_plugin looks for a file of this name, the first one that is there before
// the others. None need exist.
[[nodiscard]] std::vector<std::filesystem::path> paths_by_name(
    const std::string& name, const std::vector<std::string>& folders);

// --- Where the plugins of the program that runs lie ---

// The folder of plugins that belongs to an executable: `lib/mneme/plugins` of an installation
// (MNEME_INSTALLED_PLUGINS, relative to the executable's folder), or, where there is no such
// folder, `plugins` beside the executable's folder, as a build has it. The folder need not exist;
// then an executable of an installation gets the former.
[[nodiscard]] std::filesystem::path plugin_folder_of(const std::filesystem::path& executable);

// The folder `lib/mneme` of the installation that an executable belongs to, there or not; "" for an
// executable of a build folder.
[[nodiscard]] std::filesystem::path installation_of(const std::filesystem::path& executable);

// The folder of this process's executable. Looked up once; empty where /proc is missing.
[[nodiscard]] const std::filesystem::path& default_plugin_folder();

// The folders to search: those of [memory] plugins, or the default one where the key is absent.
[[nodiscard]] std::vector<std::string> folders_to_search(
    const std::vector<std::filesystem::path>& given);

}  // namespace mneme::plugin
