// A folder that appears whole or not at all.
#pragma once

#include <filesystem>

namespace mneme::data {

// Files are written to path(), a hidden folder beside `target`; commit() renames it to `target`.
// Without a commit the destructor removes it with everything in it.
class StagedFolder {
 public:
  // Error (kUsage) when `target` exists and is no empty folder; Error (kRun) with the system's
  // reason when the folder cannot be made.
  explicit StagedFolder(std::filesystem::path target);
  ~StagedFolder();
  StagedFolder(const StagedFolder&) = delete;
  StagedFolder& operator=(const StagedFolder&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  // The files must be on the disk. Error (kRun).
  void commit();

 private:
  std::filesystem::path target_;
  std::filesystem::path path_;
};

}  // namespace mneme::data
