#include "host/config/configs_folder.hpp"

#include <system_error>

namespace mneme::config {

namespace fs = std::filesystem;

fs::path folder_of_configs(const fs::path& executable) {
  const fs::path prefix = executable.parent_path().parent_path();
  for (const fs::path& folder :
       {fs::path(), prefix / "share/mneme", prefix.parent_path().parent_path()}) {
    std::error_code ignored;
    if (fs::exists(folder / "configs/quickstart.toml", ignored)) return folder;
  }
  return {};
}

}  // namespace mneme::config
