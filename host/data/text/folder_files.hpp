// The files of a folder that holds data.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace mneme::data {

// True for a name that is no file of the user's making: a hidden file (".DS_Store", ".#x",
// ".x.swp", "._x"), a copy that an editor or a merge left behind ("x~", "#x#", "x.bak", "x.orig",
// "x.rej", "x.swp", "x.save"), a file of Windows' Explorer ("Thumbs.db", "desktop.ini").
[[nodiscard]] bool is_leftover_name(const std::string& name);

struct FolderFiles {
  // Regular ones, by name, and broken symbolic links, which whoever reads them refuses.
  std::vector<std::filesystem::path> files;
  std::vector<std::string> leftovers;  // names that were left out, by name
  std::vector<std::string> folders;    // names of folders inside, which are not searched
  std::vector<std::string> others;     // names of pipes, sockets and devices
};

// Error (kRun) for a folder that cannot be read.
[[nodiscard]] FolderFiles list_files(const std::filesystem::path& folder);

// A warning that names what was left out, if anything; `where` names the folder.
void warn_of_left_out(const std::string& where, const FolderFiles& listed);

}  // namespace mneme::data
