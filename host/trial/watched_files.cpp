#include "host/trial/watched_files.hpp"

#include <algorithm>
#include <system_error>

#include "host/base/error.hpp"
#include "host/base/file/file_watch.hpp"
#include "host/config/memory_file.hpp"
#include "host/plugin/plugin_search.hpp"
#include "host/plugin/python/wrap.hpp"
#include "host/trial/trial.hpp"

namespace mneme::trial {
namespace {

namespace fs = std::filesystem;

// A folder itself, as a path whose parent is the folder: FileWatch is notified of what happens in
// parents.
fs::path as_watched(const fs::path& folder) { return folder / ""; }

// Any library of the folder may be the one with an id, and so may one that comes into it.
void add_folder(const fs::path& folder, std::set<fs::path>& files) {
  files.insert(as_watched(folder));
  std::error_code ignored;
  for (fs::directory_iterator at(folder, ignored); at != fs::directory_iterator();
       at.increment(ignored)) {
    if (at->path().extension() == ".so") files.insert(at->path());
  }
}

}  // namespace

void add_plugin_files(const config::MemoryConfig& memory, std::set<fs::path>& files) {
  const std::vector<std::string> folders = plugin::folders_to_search(memory.plugins);
  for (const config::TierConfig& tier : memory.tiers) {
    const std::vector<fs::path> paths = plugin::paths_by_name(tier.plugin, folders);
    files.insert(paths.begin(), paths.end());
    const bool is_file =
        std::ranges::any_of(paths, [](const fs::path& path) { return file_state(path).exists; });
    if (is_file) continue;
    for (const std::string& folder : folders) add_folder(folder, files);
  }
  try {
    for (const fs::path& file : plugin_files(memory)) {
      files.insert(file);
      if (!config::is_python_memory(file)) continue;
      for (const fs::path& module : plugin::python_files(file, file.string())) files.insert(module);
    }
  } catch (const Error&) {  // the evaluation tells it
  }
}

std::vector<std::string> names_of(const std::set<fs::path>& files) {
  std::vector<std::string> names;
  for (const fs::path& file : files) {
    const bool is_in_watched_folder =
        file.has_filename() && files.contains(as_watched(file.parent_path()));
    if (file_state(file).exists && !is_in_watched_folder) names.push_back(file.string());
  }
  return names;
}

}  // namespace mneme::trial
