// Builds of the test memory "test_rebuilt" (rebuilt.cpp), as a compiler would make them from other
// sources.
#pragma once

#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>

#include "host/base/file/file.hpp"

namespace mneme::test {

// The bytes of a build: "0.90", or "0.90 create_hang" for one that misbehaves.
inline std::string rebuilt_plugin(const std::string& text) {
  const std::filesystem::path folder =
      std::filesystem::path(MNEME_BINARY_DIR) / "tests/abi_plugins";
  std::string bytes = read_file(folder / "test_rebuilt.so");
  const std::string mark = "MNEME_TEST_BUILD=";
  constexpr std::size_t kRoom = 32;
  const std::size_t at = bytes.find(mark + "0.50");
  if (at == std::string::npos || text.size() > kRoom) {
    throw std::runtime_error("test_rebuilt has no " + mark + " or no room for " + text);
  }
  return bytes.replace(at + mark.size(), kRoom, text + std::string(kRoom - text.size(), ' '));
}

// Writes a build in place of the file, under another name first, as linkers do.
inline void install_build(const std::filesystem::path& file, const std::string& bytes) {
  const std::filesystem::path next = file.string() + ".next";
  std::ofstream(next, std::ios::binary) << bytes;
  std::filesystem::permissions(next, std::filesystem::perms::owner_all);
  std::filesystem::rename(next, file);
}

}  // namespace mneme::test
