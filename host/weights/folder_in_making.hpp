// A folder that appears complete or not at all.
#pragma once

#include <filesystem>
#include <string>

namespace mneme::weights {

// Builds a folder under another name beside its final path; deleted unless kept.
class FolderInMaking {
 public:
  // `what` ("the run's folder") and `option` ("--run") are for messages. Error (kUsage) when
  // something is at `target` that is no empty folder.
  FolderInMaking(const std::filesystem::path& target, const std::string& what,
                 const std::string& option);
  ~FolderInMaking();
  FolderInMaking(const FolderInMaking&) = delete;
  FolderInMaking& operator=(const FolderInMaking&) = delete;

  // Where to write; the folder is not made yet.
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  // Moves it to its final path. Error (kRun) when that fails.
  void keep() const;

 private:
  std::filesystem::path target_;
  std::filesystem::path path_;
  std::string what_;
};

}  // namespace mneme::weights
