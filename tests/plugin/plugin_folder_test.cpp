#include <fstream>

#include "host/plugin/plugin_search.hpp"
#include "tests/plugin/loader_support.hpp"

namespace mneme::memory {
namespace {

namespace fs = std::filesystem;

TEST(PluginFolder, OfABuildLiesBesideTheProgramsFolder) {
  const Folder folder;
  const fs::path build = folder.text();
  std::ofstream(build / "CMakeCache.txt") << "";
  EXPECT_EQ(plugin::plugin_folder_of(build / "bin/mneme"), build / "plugins");
  EXPECT_EQ(plugin::installation_of(build / "bin/mneme"), "");
}

// Where an installation's plugins are missing, the folder in which they belong is named.
TEST(PluginFolder, OfAnInstallationWithoutPluginsIsThatOfAnInstallation) {
  const fs::path installed = fs::path("/nowhere/bin") / MNEME_INSTALLED_PLUGINS;
  EXPECT_EQ(plugin::plugin_folder_of("/nowhere/bin/mneme"), installed.lexically_normal());
  EXPECT_EQ(plugin::installation_of("/nowhere/bin/mneme"),
            installed.lexically_normal().parent_path());
}

TEST(PluginFolder, OfAnInstallationLiesWhereItWasInstalled) {
  const Folder folder;
  const fs::path prefix = folder.text();
  const fs::path installed = (prefix / "bin" / MNEME_INSTALLED_PLUGINS).lexically_normal();
  fs::create_directories(prefix / "plugins");  // of somebody else
  EXPECT_EQ(plugin::plugin_folder_of(prefix / "bin/mneme"), prefix / "plugins");
  fs::create_directories(installed);
  EXPECT_EQ(plugin::plugin_folder_of(prefix / "bin/mneme"), installed);
}

TEST(PluginFolder, OfThisProgramIsSearchedWhereNoneIsGiven) {
  const fs::path executable = fs::read_symlink("/proc/self/exe");
  EXPECT_EQ(plugin::default_plugin_folder(), plugin::plugin_folder_of(executable));
  EXPECT_EQ(plugin::folders_to_search({}),
            std::vector<std::string>{plugin::default_plugin_folder().string()});
  EXPECT_EQ(plugin::folders_to_search({"/a", "/b"}), (std::vector<std::string>{"/a", "/b"}));
}

}  // namespace
}  // namespace mneme::memory
