#include "host/base/file/file.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <system_error>

#include "host/base/error.hpp"
#include "host/base/file/file_kind.hpp"

namespace mneme {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail_too_long(const fs::path& path, std::uint64_t limit, const std::string& got) {
  throw_run({.where = path.string(),
             .failed = "cannot read",
             .expected = str("at most ", human_bytes(limit)),
             .got = got,
             .hint = "check the path"});
}

// Opens a regular file, a pipe or a device for reading, and gets its status.
Descriptor open_to_read(const fs::path& path, struct stat& status) {
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) {
    const int code = errno;
    if (code == ENOENT) fail_missing(path);
    fail_file(path, "open", code);
  }
  if (::fstat(file.get(), &status) != 0) fail_file(path, "read its status", errno);
  if (S_ISDIR(status.st_mode)) {
    throw_run(
        {.where = path.string(), .failed = "cannot read", .expected = "a file", .got = "a folder"});
  }
  return file;
}

// The path of the folder's entry whose name is nearest; "" = none.
fs::path nearest_entry(const fs::path& folder, const fs::path& name) {
  std::vector<fs::path> entries;
  std::error_code failure;
  fs::directory_iterator entry(folder.empty() ? fs::path(".") : folder, failure);
  for (; !failure && entry != fs::directory_iterator(); entry.increment(failure)) {
    const fs::path file = entry->path().filename();
    std::error_code gone;  // a dangling link may have the very name
    const bool is_hidden = file.native().starts_with('.');
    if (!is_hidden && entry->exists(gone)) entries.push_back(file);
  }
  std::ranges::sort(entries);
  std::vector<std::string> names;
  for (const fs::path& file : entries) {
    names.push_back((name.has_extension() ? file : file.stem()).string());
  }
  const auto found = std::ranges::find(names, nearest(name.string(), names));
  return found == names.end() ? fs::path() : folder / *(entries.begin() + (found - names.begin()));
}

}  // namespace

std::string did_you_mean_path(const fs::path& missing, const fs::path& further) {
  const fs::path path = missing.has_filename() ? missing : missing.parent_path();  // "runs/first/"
  fs::path found = nearest_entry(path.parent_path(), path.filename());
  if (found.empty() && !further.empty()) found = nearest_entry(further, path.filename());
  return found.empty() ? "" : str(" (did you mean ", found, "?)");
}

void require_link_target(const fs::path& path) {
  std::error_code ignored;
  if (fs::exists(path, ignored) || !fs::is_symlink(fs::symlink_status(path, ignored))) return;
  throw_run({.where = path.string(),
             .failed = "cannot open",
             .got = str("a symbolic link to ", fs::read_symlink(path, ignored).string(),
                        ", which is not there"),
             .hint = "mount the disk that it leads to, or correct the link"});
}

void fail_missing(const fs::path& path, const fs::path& further) {
  require_link_target(path);
  const std::string near = did_you_mean_path(path, further);
  throw_run({.where = path.string(),
             .failed = str("cannot open: ", std::generic_category().message(ENOENT), near),
             .hint = near.empty() ? "check the path" : ""});
}

void fail_file(const fs::path& path, const std::string& action, int code, const std::string& hint) {
  throw_run({.where = path.string(),
             .failed = str("cannot ", action, ": ", std::generic_category().message(code)),
             .hint = hint});
}

int write_bytes(int fd, std::span<const std::byte> bytes) {
  // Linux writes at most 2^31 - 4096 bytes a call.
  constexpr std::size_t kChunk = std::size_t{1} << 30;
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), std::min(bytes.size(), kChunk));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0 && errno == EAGAIN) {  // a pipe that somebody made non-blocking
      pollfd waiting{fd, POLLOUT, 0};
      static_cast<void>(::poll(&waiting, 1, -1));
      continue;
    }
    if (written < 0) return errno;
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return 0;
}

void sync_folder(const fs::path& folder) {
  const Descriptor descriptor(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (descriptor.get() >= 0) static_cast<void>(::fsync(descriptor.get()));
}

std::string read_file(const fs::path& path, std::uint64_t limit) {
  struct stat status {};
  const Descriptor file = open_to_read(path, status);
  const bool is_regular = S_ISREG(status.st_mode);
  if (limit == 0) {
    limit = is_regular ? std::numeric_limits<std::uint64_t>::max() : kMaxStreamBytes;
  }
  const auto size = static_cast<std::uint64_t>(status.st_size);
  if (is_regular && size > limit) fail_too_long(path, limit, human_bytes(size));
  std::string text;
  if (is_regular) text.reserve(static_cast<std::size_t>(size));
  std::vector<char> buffer(std::size_t{1} << 18);
  for (;;) {
    const ssize_t count = ::read(file.get(), buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail_file(path, "read", errno);
    if (count == 0) break;
    text.append(buffer.data(), static_cast<std::size_t>(count));
    if (text.size() > limit) {
      fail_too_long(path, limit, is_regular ? "more" : "a pipe or device that goes on");
    }
  }
  check_is_text(path, text, path.string(), "a text");
  return text;
}

void check_readable(const fs::path& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) == 0 && S_ISFIFO(status.st_mode)) return;
  static_cast<void>(open_to_read(path, status));
}

MappedFile::MappedFile(const fs::path& path) : path_(path) {
  struct stat status {};
  const Descriptor file = open_to_read(path, status);
  if (!S_ISREG(status.st_mode)) {
    throw_run({.where = path.string(),
               .failed = "cannot map",
               .expected = "a regular file",
               .got = "a pipe, socket or device"});
  }
  const auto size = static_cast<std::size_t>(status.st_size);
  if (size == 0) return;
  void* data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (data == MAP_FAILED) fail_file(path, "map", errno);
  data_ = {static_cast<const std::byte*>(data), {size}};
}

void MappedFile::Unmap::operator()(const std::byte* data) const noexcept {
  ::munmap(const_cast<std::byte*>(data), size);
}

}  // namespace mneme
