// The files that stand for a memory: TOML, or a memory in Python.
#pragma once

#include <filesystem>

#include "host/config/toml/toml.hpp"

namespace mneme::config {

// Whether a tier's plugin or a memory file is a memory in Python: its name ends in ".py". Such a
// plugin is a path, relative to the file that names it; as a memory file it is one tier with the
// defaults of its options.
[[nodiscard]] bool is_python_memory(const std::filesystem::path& path);

// The tables of a memory file. Errors: as parse_toml_file.
[[nodiscard]] Value read_memory_file(const std::filesystem::path& path);

}  // namespace mneme::config
