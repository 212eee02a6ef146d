// A file that grows record by record: metrics and event files.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string_view>

namespace mneme {

// Open for appending; made when it is not there. Every record is handed to the system before
// append() returns, so a killed process loses none. One thread at a time; movable.
class AppendFile {
 public:
  // Error (kRun) naming the path and the system's reason; so do append() and sync().
  explicit AppendFile(const std::filesystem::path& path);
  ~AppendFile();
  AppendFile(AppendFile&& other) noexcept;
  AppendFile& operator=(AppendFile&&) = delete;
  AppendFile(const AppendFile&) = delete;
  AppendFile& operator=(const AppendFile&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }
  // Appends the whole record or, with an Error, nothing of it.
  void append(std::span<const std::byte> record);
  void append(std::string_view record);
  // Returns when the records are on the disk (fsync).
  void sync();

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
};

}  // namespace mneme
