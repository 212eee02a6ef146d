// Files whose change may change what a memory runs, for FileWatch.
#pragma once

#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "host/config/experiment.hpp"

namespace mneme::trial {

// Adds those of the memory: where a tier's plugin lies, and where it would be found first if it were
// there.
void add_plugin_files(const config::MemoryConfig& memory, std::set<std::filesystem::path>& files);

// Those that are there, for people: a folder in place of the libraries in it.
[[nodiscard]] std::vector<std::string> names_of(const std::set<std::filesystem::path>& files);

}  // namespace mneme::trial
