// Test plugins with one flaw each (plugin.c), by the flaw's name.
#pragma once

#include <filesystem>
#include <stdexcept>
#include <string>

#include "host/base/file/file.hpp"

namespace mneme::test {

// The bytes of the plugin with this flaw: a library of its own where the flaw lies in the ELF file
// or the note, otherwise a common one with the flaw's name written into it.
inline std::string broken_plugin(const std::string& flaw) {
  const std::filesystem::path folder =
      std::filesystem::path(MNEME_BINARY_DIR) / "tests/plugin/broken_plugins";
  if (const auto own = folder / (flaw + ".so"); std::filesystem::exists(own)) return read_file(own);
  std::string bytes = read_file(folder / (flaw == "throws_in_init" ? "throws.so" : "broken.so"));
  const std::string mark = "MNEME_TEST_FLAW=";
  const std::size_t at = bytes.find(mark);
  if (at == std::string::npos) throw std::runtime_error("a test plugin without " + mark);
  return bytes.replace(at + mark.size(), flaw.size() + 1, flaw.c_str(), flaw.size() + 1);
}

}  // namespace mneme::test
