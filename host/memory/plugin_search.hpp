// From a name in a manifest to a file.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace mneme::memory {

// Finds a plugin in the folders of a manifest, in their order: first by file name (with or without
// ".so"), then by the id in the files' notes. Nothing outside the folders is looked at: no current
// folder, no environment, no system search. Returns the file's absolute path with links resolved.
//
// Errors: Error(kPlugin) that starts with `where`: not found (lists folders, the plugins in them
// and the nearest name), a path instead of a name, an id that two files of a folder share, a link
// that leaves its folder, a folder on the way that every user may write.
[[nodiscard]] std::filesystem::path find_plugin(const std::string& name,
                                                const std::vector<std::string>& folders,
                                                const std::string& where);

}  // namespace mneme::memory
