// From a name in a manifest to a file.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace mneme::plugin {

// Finds a plugin in the folders of a manifest: by file name (with or without ".so"), or, where no
// file has it, by the id in the files' notes. Of several files with the same bytes the first
// folder's is taken; of several with others the one that `sha256` pins ("" = none is pinned).
// Nothing outside the folders is looked at: no current folder, no environment, no system search.
// Returns the file's absolute path with links resolved.
//
// Errors: Error(kPlugin) that starts with `where`: not found (lists folders, the plugins in them
// and the nearest name), a path instead of a name, several builds of which none is pinned, a link
// that leaves its folder, a folder on the way that every user may write.
[[nodiscard]] std::filesystem::path find_plugin(const std::string& name,
                                                const std::vector<std::string>& folders,
                                                const std::string& sha256,
                                                const std::string& where);

}  // namespace mneme::plugin
