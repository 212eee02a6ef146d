#include "host/plugin/plugin_folder.hpp"

#include <system_error>

namespace mneme::plugin {

namespace fs = std::filesystem;

fs::path plugin_folder_of(const fs::path& executable) {
  const fs::path program_folder = executable.parent_path();
  const fs::path installed = (program_folder / MNEME_INSTALLED_PLUGINS).lexically_normal();
  std::error_code ignored;
  if (fs::is_directory(installed, ignored)) return installed;
  return program_folder.parent_path() / "plugins";
}

const fs::path& default_plugin_folder() {
  static const fs::path folder = [] {
    std::error_code code;
    const fs::path executable = fs::read_symlink("/proc/self/exe", code);
    return code ? fs::path() : plugin_folder_of(executable);
  }();
  return folder;
}

std::vector<std::string> folders_to_search(const std::vector<fs::path>& given) {
  std::vector<std::string> folders;
  for (const fs::path& folder : given) folders.push_back(folder.string());
  if (folders.empty() && !default_plugin_folder().empty()) {
    folders.push_back(default_plugin_folder().string());
  }
  return folders;
}

}  // namespace mneme::plugin
