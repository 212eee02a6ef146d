// Writes whole files, and into pipes, devices and sockets.

#include "host/base/file/write_file.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstring>
#include <string>
#include <system_error>
#include <utility>

#include "host/base/error.hpp"
#include "host/base/file/file.hpp"
#include "host/base/integer.hpp"

namespace mneme {
namespace {

namespace fs = std::filesystem;
using Parts = std::vector<std::span<const std::byte>>;

bool is_full(int code) { return code == ENOSPC || code == EDQUOT || code == EFBIG; }

std::string hint_for(int code) {
  if (is_full(code)) return "make room on the disk, or write elsewhere";
  if (code == EPIPE) return "its reader has ended";
  return code == EBADF ? "name a descriptor that is open for writing" : "";
}

[[noreturn]] void fail_write(const fs::path& path, int code) {
  fail_file(path, "write", code, hint_for(code));
}

// While one lives, writing to a pipe without a reader fails in write(2) of this thread and nothing
// else: the SIGPIPE that would end the process is discarded.
class NoBrokenPipe {
 public:
  NoBrokenPipe() {
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    sigset_t pending;
    is_pending_ = sigpending(&pending) == 0 && sigismember(&pending, SIGPIPE) == 1;
    pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~NoBrokenPipe() {
    const timespec now{};
    if (!is_pending_) {
      while (sigtimedwait(&pipe_, nullptr, &now) < 0 && errno == EINTR) {
      }
    }
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  NoBrokenPipe(const NoBrokenPipe&) = delete;
  NoBrokenPipe& operator=(const NoBrokenPipe&) = delete;

 private:
  sigset_t pipe_{};
  sigset_t before_{};
  bool is_pending_ = false;  // SIGPIPE was pending before, and must stay so
};

void write_all(int fd, std::span<const std::byte> bytes, const fs::path& path) {
  if (const int code = write_bytes(fd, bytes); code != 0) fail_write(path, code);
}

// Writes into something that is not replaced: a pipe, device or socket.
void write_into(int fd, const Parts& parts, const fs::path& path) {
  const NoBrokenPipe guard;
  for (const auto& part : parts) write_all(fd, part, path);
  // fsync works for block devices and redirected output; a pipe answers that it cannot be synced.
  if (::fsync(fd) != 0 && errno != EINVAL && errno != EROFS && errno != ENOTSUP) {
    fail_write(path, errno);
  }
}

// A stream socket is no file to open: its listener is connected to.
Descriptor connect_to(const fs::path& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string name = path.string();
  if (name.size() >= sizeof(address.sun_path)) fail_file(path, "connect", ENAMETOOLONG, "");
  std::memcpy(address.sun_path, name.data(), name.size());
  Descriptor file(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (file.get() < 0 ||
      ::connect(file.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    fail_file(path, "connect", errno, "start the program that listens there first");
  }
  return file;
}

Descriptor open_node(const fs::path& path) {
  for (;;) {
    Descriptor file(::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY));
    if (file.get() >= 0) return file;
    if (errno == EINTR) continue;
    struct stat status {};
    const int code = errno;
    if (::stat(path.c_str(), &status) == 0 && S_ISSOCK(status.st_mode)) return connect_to(path);
    fail_write(path, code);
  }
}

// Removes the temporary file unless the rename has taken place.
class Temporary {
 public:
  explicit Temporary(std::string path) : path_(std::move(path)) {}
  ~Temporary() {
    if (!path_.empty()) ::unlink(path_.c_str());
  }
  Temporary(const Temporary&) = delete;
  Temporary& operator=(const Temporary&) = delete;
  void keep() { path_.clear(); }

 private:
  std::string path_;
};

// Creates a new file beside `target`; its name goes to `name`. Plain open(2) and not mkostemp, so
// that the file gets the mode that the user's umask asks for.
Descriptor create_beside(const fs::path& target, const fs::path& folder, std::string& name) {
  static std::atomic<unsigned> counter{0};
  for (;;) {
    const std::string suffix = str('.', ::getpid(), '-', counter.fetch_add(1), ".tmp");
    name = (folder / str('.', target.filename().string(), suffix)).string();
    Descriptor file(::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    if (file.get() >= 0 || errno != EEXIST) return file;
  }
}

// The process in a name that create_beside() has made, ".<name>.<pid>-<n>.tmp"; 0 = another name.
pid_t writer_of(std::string_view name) {
  constexpr std::string_view kEnd = ".tmp";
  if (!name.starts_with('.') || !name.ends_with(kEnd)) return 0;
  name.remove_suffix(kEnd.size());
  const std::string_view last = name.substr(name.rfind('.') + 1);
  pid_t process = 0;
  const auto [end, error] = std::from_chars(last.data(), last.data() + last.size(), process);
  const bool is_ours = error == std::errc() && end != last.data() + last.size() && *end == '-';
  return is_ours ? process : 0;
}

// A file that is replaced keeps its mode.
void copy_mode(const fs::path& from, int to, const fs::path& path) {
  struct stat status {};
  if (::stat(from.c_str(), &status) != 0) return;
  if (::fchmod(to, status.st_mode & 07777) != 0) fail_file(path, "set its mode", errno, "");
}

void replace_file(const fs::path& target, const Parts& parts, const fs::path& path) {
  const fs::path folder = target.has_parent_path() ? target.parent_path() : fs::path(".");
  std::string name;
  Descriptor file = create_beside(target, folder, name);
  if (file.get() < 0) {
    const int code = errno;
    fail_file(path, "write", code,
              code == ENOENT ? str("create the folder ", folder.string()) : hint_for(code));
  }
  Temporary temporary(name);
  for (const auto& part : parts) write_all(file.get(), part, path);
  copy_mode(target, file.get(), path);
  if (::fsync(file.get()) != 0) fail_write(path, errno);
  if (file.close() != 0) fail_write(path, errno);
  if (::rename(name.c_str(), target.c_str()) != 0) fail_file(path, "replace", errno, "");
  temporary.keep();
  sync_folder(folder);
}

}  // namespace

void write_file_atomic(const fs::path& path, const Parts& parts) {
  const OutputPlace place = find_output_place(path);
  switch (place.kind) {
    case OutputPlace::Kind::kFile:
      replace_file(place.path, parts, path);
      return;
    case OutputPlace::Kind::kDescriptor:
      write_into(place.descriptor, parts, path);
      return;
    case OutputPlace::Kind::kNode: {
      Descriptor node = open_node(path);
      write_into(node.get(), parts, path);
      if (node.close() != 0) fail_write(path, errno);
      return;
    }
    case OutputPlace::Kind::kFolder:
      throw_run({.where = path.string(),
                 .failed = "cannot write",
                 .expected = "a file",
                 .got = "a folder"});
  }
}

void write_file_atomic(const fs::path& path, std::string_view text) {
  write_file_atomic(path, Parts{std::as_bytes(std::span(text))});
}

namespace {

[[noreturn]] void fail_append(const std::filesystem::path& path, const std::string& action,
                              int code) {
  fail_file(path, action, code, is_full(code) ? "make room on the disk" : "");
}

}  // namespace

AppendFile::AppendFile(const std::filesystem::path& path)
    : path_(path), file_(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666)) {
  if (file_.get() < 0) fail_append(path_, "open to append", errno);
}

void AppendFile::append(std::span<const std::byte> record) {
  struct stat before {};
  if (::fstat(file_.get(), &before) != 0) fail_append(path_, "read its size", errno);
  if (const int code = write_bytes(file_.get(), record); code != 0) {
    // Cuts off the part of the record that was written before the disk was full.
    static_cast<void>(::ftruncate(file_.get(), before.st_size));
    fail_append(path_, "append", code);
  }
}

void AppendFile::append(std::string_view record) { append(std::as_bytes(std::span(record))); }

void AppendFile::sync() {
  // A pipe or a device has nothing to sync.
  if (::fsync(file_.get()) != 0 && errno != EINVAL) fail_append(path_, "sync", errno);
}

namespace {

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
  const int number = integer_of<int>(name).value_or(-1);
  return number >= 0 && !name.starts_with('-') && lists_own_descriptors(folder_of(path)) ? number
                                                                                         : -1;
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
  constexpr int kMaxLinks = 40;  // the kernel's own limit
  fs::path target = path;
  for (int links = 0;; ++links) {
    if (const int number = descriptor_named(target); number >= 0) {
      return {.kind = OutputPlace::Kind::kDescriptor, .path = path, .descriptor = number};
    }
    std::error_code error;
    if (!fs::is_symlink(target, error)) break;
    const fs::path next = fs::read_symlink(target, error);
    if (error || links == kMaxLinks) {
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

void make_parents(const fs::path& path) {
  const OutputPlace place = find_output_place(path);
  if (place.kind != OutputPlace::Kind::kFile || !place.path.has_parent_path()) return;
  std::error_code error;
  fs::create_directories(place.path.parent_path(), error);
  if (error) fail_file(place.path.parent_path(), "make the folder", error.value());
}

std::string obstacle_above(const fs::path& path) {
  std::error_code ignored;
  fs::path above = fs::absolute(path).lexically_normal();
  if (!above.has_filename()) above = above.parent_path();  // "folder/"
  do {
    above = above.parent_path();
  } while (!fs::exists(fs::symlink_status(above, ignored)) && above.has_relative_path());
  return obstacle_in(above);
}

std::string obstacle_in(const fs::path& folder) {
  std::error_code ignored;
  if (!fs::is_directory(folder, ignored)) return str(folder.string(), ", which is no folder");
  if (::faccessat(AT_FDCWD, folder.c_str(), W_OK | X_OK, AT_EACCESS) == 0) return "";
  return str("the folder ", folder.string(), ": ", std::generic_category().message(errno));
}

void remove_temporaries(const fs::path& folder, Writers writers,
                        const std::vector<std::string>& names) {
  std::error_code ignored;
  std::vector<fs::path> found;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, ignored)) {
    const std::string name = entry.path().filename().string();
    const bool is_asked_for =
        names.empty() || std::ranges::any_of(names, [&](const std::string& begin) {
          return name.starts_with('.' + begin);
        });
    const pid_t writer = is_asked_for ? writer_of(name) : 0;
    if (writer <= 0) continue;
    const bool has_ended = ::kill(writer, 0) != 0 && errno == ESRCH;
    if (has_ended || writers == Writers::kCallerAlone) found.push_back(entry.path());
  }
  for (const fs::path& path : found) fs::remove(path, ignored);
}

}  // namespace mneme
