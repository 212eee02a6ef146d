// One writer a run folder.
#pragma once

#include <filesystem>

namespace mneme::run {

// Holds the file `lock` of a folder locked (flock) while it lives: the kernel releases it however
// the process ends. The file stays, empty; while somebody holds it, it says who: "<pid> <host>".
class RunLock {
 public:
  // Error (kUsage) naming process and machine when another process, or another RunLock of this
  // one, holds it; Error (kRun) when the file cannot be made or locked.
  explicit RunLock(const std::filesystem::path& folder);
  ~RunLock();
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

 private:
  int descriptor_ = -1;
};

}  // namespace mneme::run
