// Output files: files that grow record by record, and what lies at a path named for output.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "host/base/file/file.hpp"

namespace mneme {

// A file open for appending, such as metrics and event files; created when it does not exist. Every
// record is written to the system before append() returns, so a killed process loses none. One
// thread at a time; movable.
class AppendFile {
 public:
  // Error (kRun) naming the path and the system's reason; so do append() and sync().
  explicit AppendFile(const std::filesystem::path& path);

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }
  // Appends the whole record or, with an Error, nothing of it.
  void append(std::span<const std::byte> record);
  void append(std::string_view record);
  // Returns when the records are on the disk (fsync).
  void sync();

 private:
  std::filesystem::path path_;
  Descriptor file_;
};

// The kind of file at a path that a user names for output.
struct OutputPlace {
  enum class Kind {
    kFile,        // a regular file, or nothing yet: it may be replaced
    kFolder,      // cannot be written
    kNode,        // a device, a FIFO or a socket: written into, never replaced
    kDescriptor,  // a descriptor of this process: written at its present position, never reopened
  };
  Kind kind = Kind::kFile;
  // kFile: the file itself, every symbolic link followed, so that a rename replaces no link.
  // Others: the path as it was given.
  std::filesystem::path path = {};
  int descriptor = -1;  // of kDescriptor
};

// Finds the kind; changes nothing. A descriptor of this process is found by each of its names
// (/dev/stdout, /dev/fd/N, /proc/self/fd/N, links to them), and stdout and stderr also by the name
// of the regular file that they go to: reopened, the file would lose its contents. Error (kRun) for
// a cycle of links; other errors show when the file is opened.
[[nodiscard]] OutputPlace find_output_place(const std::filesystem::path& path);

// Makes the folders that are missing on the way to an output, a file or a folder: all but the last
// part of `path`. Error (kRun).
void make_parents(const std::filesystem::path& path);

// Why no folder and no file could be made at `path`, found without making one: the nearest thing on
// the way that exists is no folder, or cannot be written. "" = no obstacle is visible.
[[nodiscard]] std::string obstacle_above(const std::filesystem::path& path);
// Likewise why nothing could be made in a folder: it is none, or cannot be written.
[[nodiscard]] std::string obstacle_in(const std::filesystem::path& folder);

}  // namespace mneme
