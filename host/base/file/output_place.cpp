#include "host/base/file/output_place.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <string>
#include <system_error>

#include "host/base/error.hpp"

namespace mneme {
namespace {

namespace fs = std::filesystem;

fs::path folder_of(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

// True for /proc/self/fd and /proc/thread-self/fd under any name.
bool lists_own_descriptors(const fs::path& folder) {
  std::error_code error;
  const fs::path real = fs::canonical(folder, error);
  if (error || real.filename() != "fd") return false;
  const fs::path process = fs::canonical("/proc/self", error);
  if (error) return false;
  return real.parent_path() == process ||
         real.parent_path().parent_path() == process / "task";  // a thread's
}

// The descriptor of this process that the path itself names, its last link not followed; -1 = none.
int descriptor_named(const fs::path& path) {
  const std::string name = path.filename().string();
  int number = -1;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  const bool is_number =
      error == std::errc() && end == name.data() + name.size() && !name.starts_with('-');
  return is_number && lists_own_descriptors(folder_of(path)) ? number : -1;
}

// stdout or stderr when it goes to this regular file; -1 = neither does.
int standard_descriptor_of(const struct stat& file) {
  for (const int descriptor : {STDOUT_FILENO, STDERR_FILENO}) {
    struct stat open {};
    if (::fstat(descriptor, &open) == 0 && open.st_dev == file.st_dev &&
        open.st_ino == file.st_ino) {
      return descriptor;
    }
  }
  return -1;
}

}  // namespace

OutputPlace find_output_place(const fs::path& path) {
  constexpr int kMostLinks = 40;  // the kernel's own limit
  fs::path target = path;
  for (int links = 0;; ++links) {
    if (const int number = descriptor_named(target); number >= 0) {
      return {.kind = OutputPlace::Kind::kDescriptor, .path = path, .descriptor = number};
    }
    std::error_code error;
    if (!fs::is_symlink(target, error)) break;
    const fs::path next = fs::read_symlink(target, error);
    if (error || links == kMostLinks) {
      throw_run({.where = path.string(),
                 .failed = str("cannot write: ",
                               error ? error.message() : std::generic_category().message(ELOOP))});
    }
    target = next.is_absolute() ? next : folder_of(target) / next;
  }
  struct stat status {};
  // By the path as given: the links of /proc lead to what has no path of its own.
  if (::stat(path.c_str(), &status) != 0) return {.path = target};
  if (S_ISDIR(status.st_mode)) return {.kind = OutputPlace::Kind::kFolder, .path = path};
  if (!S_ISREG(status.st_mode)) return {.kind = OutputPlace::Kind::kNode, .path = path};
  if (const int number = standard_descriptor_of(status); number >= 0) {
    return {.kind = OutputPlace::Kind::kDescriptor, .path = path, .descriptor = number};
  }
  return {.path = target};
}

}  // namespace mneme
