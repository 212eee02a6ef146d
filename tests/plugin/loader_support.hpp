// What the loader's tests share: folders of their own, spoiled files, messages of errors.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>

#include "host/base/error.hpp"
#include "host/base/file/file.hpp"
#include "tests/plugin/broken/broken_plugin.hpp"

namespace mneme::memory {

// A folder that only this user can enter, removed at the end.
class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "mneme-test-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary folder");
    path_ = std::filesystem::canonical(name);
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  [[nodiscard]] std::string text() const { return path_.string(); }
  [[nodiscard]] std::filesystem::path file(const std::string& name) const { return path_ / name; }
  // Writes a test plugin here, as `name`.so.
  std::filesystem::path add(const std::string& plugin, const std::string& name) const {
    return write(name + ".so", test::broken_plugin(plugin));
  }
  std::filesystem::path add(const std::string& plugin) const { return add(plugin, plugin); }
  // Writes into the file that is there (the same inode), or makes it.
  std::filesystem::path write(const std::string& name, const std::string& bytes) const {
    const std::filesystem::path path = file(name);
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
    ::chmod(path.c_str(), 0755);
    return path;
  }

 private:
  std::filesystem::path path_;
};

// Every occurrence of `from` in `bytes` replaced by the equally long `to`; at least one must exist.
inline std::string patched(std::string bytes, const std::string& from, const std::string& to) {
  EXPECT_EQ(from.size(), to.size());
  std::size_t count = 0;
  for (std::size_t at = bytes.find(from); at != std::string::npos; at = bytes.find(from, at)) {
    bytes.replace(at, to.size(), to);
    ++count;
  }
  EXPECT_GT(count, 0U) << from << " does not occur";
  return bytes;
}

// The message of the Error(kPlugin) that `call` throws; a test failure when it throws none.
template <typename Call>
std::string refusal(Call&& call) {
  try {
    std::forward<Call>(call)();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kPlugin) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "no error was thrown";
  return "";
}

}  // namespace mneme::memory
