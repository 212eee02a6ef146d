// The folders in which the commands about plugins look.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace mneme::cli {

// --plugins DIR, repeatable.
void add_plugin_folders(CLI::App& command, std::vector<std::filesystem::path>& folders);

// The given folders, absolute, or the program's own (memory::default_plugin_folder()) when none is
// given. Error (kUsage) when that does not exist.
[[nodiscard]] std::vector<std::filesystem::path> plugin_folders(
    const std::vector<std::filesystem::path>& given);

}  // namespace mneme::cli
