// Waits until files change.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <vector>

#include "host/base/file/file.hpp"

namespace mneme {

// What tells one state of a file from another: which file it is, its size and the times of its last
// changes. A file that is written or replaced by another, under the same name, gets another one.
struct FileState {
  bool exists = false;
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  std::uint64_t bytes = 0;
  std::int64_t modified_ns = 0;  // mtime
  std::int64_t changed_ns = 0;   // ctime

  friend bool operator==(const FileState&, const FileState&) = default;
};

// Links are followed. A path that cannot be looked at counts as absent.
[[nodiscard]] FileState file_state(const std::filesystem::path& path);

// How a FileWatch learns of changes.
enum class WatchMethod {
  kNotified,  // inotify, and a look every two seconds: other machines' writes are not notified
  kPolled,    // a look every half second: there is no inotify, or its limits are reached
};

// Watches files by name: they may be written in place, replaced by rename, removed, or not be there
// yet, and so may their folders. One thread at a time.
class FileWatch {
 public:
  // `quiet`: a change is reported when nothing has changed for this time, because linkers and
  // editors write in pieces.
  explicit FileWatch(std::chrono::milliseconds quiet = std::chrono::milliseconds(200),
                     WatchMethod method = WatchMethod::kNotified);

  // From now on these files are watched, in place of others. The states of files that were watched
  // before stay those of the last report: a change since then is not lost.
  void watch(const std::vector<std::filesystem::path>& files);
  [[nodiscard]] WatchMethod method() const { return method_; }

  // Waits until a file is in another state than at the last report, or at its first watch(), and
  // all have been quiet. The files that changed; empty when `is_cancelled`, asked every tenth of a
  // second, said so.
  [[nodiscard]] std::vector<std::filesystem::path> wait(const std::function<bool()>& is_cancelled);

 private:
  void watch_folders();
  // Returns after `limit`, or earlier and true when something may have changed.
  bool sleep(std::chrono::milliseconds limit);
  [[nodiscard]] std::map<std::filesystem::path, FileState> look() const;

  std::chrono::milliseconds quiet_;
  WatchMethod method_;
  Descriptor events_;  // of inotify; none where it is not used
  std::map<std::filesystem::path, FileState> reported_;
};

}  // namespace mneme
