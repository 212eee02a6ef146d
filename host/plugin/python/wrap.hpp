// Plugin files of memories in Python: copies of the bridge that hold the memory's declaration and
// source (python/bridge/payload.h). No compiler is needed.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace mneme::plugin {

struct PythonDeclaration;  // declaration.hpp

// The bytes of the plugin file of the memory in the file at `path`. Equal files and programs give
// equal bytes. Errors: as python_place and declaration_of.
[[nodiscard]] std::vector<std::byte> wrap_python(const std::filesystem::path& path,
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
