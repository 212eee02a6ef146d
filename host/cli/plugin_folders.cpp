#include "host/cli/plugin_folders.hpp"

#include <CLI/CLI.hpp>
#include <system_error>

#include "host/base/error.hpp"
#include "host/plugin/plugin_folder.hpp"

namespace mneme::cli {

namespace fs = std::filesystem;

void add_plugin_folders(CLI::App& command, std::vector<fs::path>& folders) {
  command
      .add_option("--plugins", folders,
                  "Folder to look in, instead of the program's own plugins; may be given several "
                  "times")
      ->type_name("DIR")
      ->allow_extra_args(false);
}

std::vector<fs::path> plugin_folders(const std::vector<fs::path>& given) {
  std::vector<fs::path> folders;
  for (const fs::path& folder : given) folders.push_back(fs::absolute(folder).lexically_normal());
  if (!folders.empty()) return folders;
  const fs::path& folder = plugin::default_plugin_folder();
  std::error_code ignored;
  if (folder.empty() || !fs::is_directory(folder, ignored)) {
    throw_usage({.where = "plugins",
                 .failed = "no folder to look in",
                 .expected = "a folder " + folder.string(),
                 .got = "none",
                 .hint = "name one with --plugins DIR"});
  }
  return {folder};
}

}  // namespace mneme::cli
