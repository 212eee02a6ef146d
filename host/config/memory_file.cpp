#include "host/config/memory_file.hpp"

#include "host/base/file/file.hpp"
#include "host/base/text.hpp"

namespace mneme::config {

bool is_python_memory(const std::filesystem::path& path) { return path.extension() == ".py"; }

Value read_memory_file(const std::filesystem::path& path) {
  if (!is_python_memory(path)) return parse_toml_file(path, "configs/memory");
  check_readable(path);
  Value root =
      parse_toml(str("[[memory.tier]]\nplugin = ", toml_string(path.filename().string()), '\n'),
                 path.string(), std::filesystem::absolute(path).parent_path());
  Position position = root.position();  // the file itself: these lines are not in it
  position.line = position.column = 0;
  root.place_at(position, "");
  return root;
}

}  // namespace mneme::config
