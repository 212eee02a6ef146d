// Plugin files of memories in Python: copies of the bridge that hold the memory's declaration and
// source (python/bridge/payload.h). No compiler is needed.
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace mneme::plugin {

struct PythonDeclaration;  // declaration.hpp

// By name: "python", "mneme" (the package), "torch", and the installed distributions that a memory
// imports. Empty for a plugin that is not described by its Python file.
using PythonVersions = std::map<std::string, std::string>;

// "mneme 0.1.1, python 3.11.7, torch 2.11.0".
[[nodiscard]] std::string versions_text(const PythonVersions& versions);

struct WrappedPython {
  std::vector<std::byte> bytes;  // of the plugin file
  PythonVersions versions;       // that the memory runs with; no part of the bytes
};

// The plugin file of the memory in the file at `path`. Equal files and programs give equal bytes.
// Errors: as python_place and declaration_of.
[[nodiscard]] WrappedPython wrap_python(const std::filesystem::path& path,
                                        const std::string& where);

// The same from the bridge's bytes. Error (kPlugin) for one that is no bridge, and for a memory that
// is larger than a plugin file can hold, with the limit.
[[nodiscard]] std::vector<std::byte> wrapped(std::span<const std::byte> bridge,
                                             const PythonDeclaration& memory,
                                             const std::string& where);

// The files that the memory consists of: its own first, then modules of the user's that it imports.
// Errors: as wrap_python.
[[nodiscard]] std::vector<std::filesystem::path> python_files(const std::filesystem::path& path,
                                                              const std::string& where);

}  // namespace mneme::plugin
