// Where the plugins of the program that runs lie.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace mneme::plugin {

// The folder of plugins that belongs to an executable: `lib/mneme/plugins` of an installation
// (MNEME_INSTALLED_PLUGINS, relative to the executable's folder), or, where there is no such
// folder, `plugins` beside the executable's folder, as a build has it. It need not exist.
[[nodiscard]] std::filesystem::path plugin_folder_of(const std::filesystem::path& executable);

// The folder of this process's executable. Looked up once; empty where /proc is missing.
[[nodiscard]] const std::filesystem::path& default_plugin_folder();

// The folders to search: those of [memory] plugins, or the default one where the key is absent.
[[nodiscard]] std::vector<std::string> folders_to_search(
    const std::vector<std::filesystem::path>& given);

}  // namespace mneme::plugin
