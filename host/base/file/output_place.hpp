// What stands at a path that a user names for output.
#pragma once

#include <filesystem>

namespace mneme {

struct OutputPlace {
  enum class Kind {
    kFile,        // a regular file, or nothing yet: it may be replaced
    kFolder,      // cannot be written
    kNode,        // a device, a FIFO or a socket: it is written into, never replaced
    kDescriptor,  // open in this process: it is written to where it stands, never opened anew
  };
  Kind kind = Kind::kFile;
  // kFile: the file itself, every symbolic link followed, so that a rename replaces no link.
  // Others: the path as it was given.
  std::filesystem::path path = {};
  int descriptor = -1;  // of kDescriptor
};

// Looks, and changes nothing. A descriptor of this process is found by each of its names
// (/dev/stdout, /dev/fd/N, /proc/self/fd/N, links to them), and stdout and stderr also by the name
// of the regular file that they go to: opened anew, it would lose what they hold. Error (kRun) for
// links that go round in a circle; other flaws show when the place is opened.
[[nodiscard]] OutputPlace find_output_place(const std::filesystem::path& path);

}  // namespace mneme
