// A folder of its own for one test, removed at the end; and the message of a failing call.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <string_view>

#include "host/base/error.hpp"
#include "host/base/text.hpp"

namespace mneme::test {

class TemporaryFolder {
 public:
  TemporaryFolder() {
    static int counter = 0;
    path_ = std::filesystem::temp_directory_path() / str("mneme-test-", ::getpid(), '-', counter++);
    std::filesystem::create_directories(path_);
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] std::filesystem::path operator/(std::string_view name) const {
    return path_ / name;
  }
  // Writes a file of the folder, "sub/name" too. Throws where it cannot be written.
  std::filesystem::path write(std::string_view name, std::string_view bytes) const {
    const std::filesystem::path file = path_ / name;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream out(file, std::ios::binary);
    out << bytes;
    out.close();
    if (!out) throw std::runtime_error("the test cannot write " + file.string());
    return file;
  }

 private:
  std::filesystem::path path_;
};

// The message of the Error that `call` throws, with its kind: "2: ..."; "no error" without one.
template <typename Call>
std::string error_of(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    return str(error.exit_code(), ": ", error.what());
  }
  return "no error";
}

}  // namespace mneme::test
