// The experiments and memory files that come with the program.
#pragma once

#include <filesystem>

namespace mneme::config {

// The folder that holds `configs`, with the files that belong to the program `executable`: of its
// installation or of its source tree. "" for the working folder, and where there is none.
// python/mneme/launch.py finds the same.
[[nodiscard]] std::filesystem::path folder_of_configs(const std::filesystem::path& executable);

}  // namespace mneme::config
