#include "host/base/file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <system_error>
#include <utility>

#include "host/base/error.hpp"

namespace mneme {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const fs::path& path, const std::string& action, int code,
                       const std::string& hint = "") {
  throw_run({.where = path.string(),
             .failed = str("cannot ", action, ": ", std::generic_category().message(code)),
             .hint = hint});
}

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&&) = delete;
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  [[nodiscard]] int get() const { return fd_; }
  // Closes now; the result of close(2).
  int close() { return ::close(std::exchange(fd_, -1)); }

 private:
  int fd_;
};

// Opens a regular file (or a pipe and the like) for reading; its status comes with it.
Descriptor open_to_read(const fs::path& path, struct stat& status) {
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) {
    const int code = errno;
    fail(path, "open", code, code == ENOENT ? "check the path" : "");
  }
  if (::fstat(file.get(), &status) != 0) fail(path, "read its status", errno);
  if (S_ISDIR(status.st_mode)) {
    throw_run(
        {.where = path.string(), .failed = "cannot read", .expected = "a file", .got = "a folder"});
  }
  return file;
}

void write_all(int fd, std::span<const std::byte> bytes, const fs::path& path) {
  // Linux writes at most 2^31 - 4096 bytes a call.
  constexpr std::size_t kChunk = std::size_t{1} << 30;
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), std::min(bytes.size(), kChunk));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail(path, "write", errno);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
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

// A file that is replaced keeps its mode.
void copy_mode(const fs::path& from, int to, const fs::path& path) {
  struct stat status {};
  if (::stat(from.c_str(), &status) != 0) return;
  if (::fchmod(to, status.st_mode & 07777) != 0) fail(path, "set its mode", errno);
}

void sync_folder(const fs::path& folder) {
  const Descriptor descriptor(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  // Some file systems cannot sync a folder; the file itself is safe by then.
  if (descriptor.get() >= 0) static_cast<void>(::fsync(descriptor.get()));
}

}  // namespace

std::string read_file(const fs::path& path) {
  struct stat status {};
  const Descriptor file = open_to_read(path, status);
  std::string text;
  if (S_ISREG(status.st_mode)) text.reserve(static_cast<std::size_t>(status.st_size));
  std::vector<char> buffer(std::size_t{1} << 18);
  for (;;) {
    const ssize_t count = ::read(file.get(), buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail(path, "read", errno);
    if (count == 0) return text;
    text.append(buffer.data(), static_cast<std::size_t>(count));
  }
}

void write_file_atomic(const fs::path& path, const std::vector<std::span<const std::byte>>& parts) {
  // A link is followed, so that the file it names is replaced, not the link.
  std::error_code ignored;
  const fs::path target = fs::is_symlink(path, ignored) ? fs::weakly_canonical(path) : path;
  const fs::path folder = target.has_parent_path() ? target.parent_path() : fs::path(".");
  if (fs::is_directory(target, ignored)) {
    throw_run({.where = path.string(),
               .failed = "cannot write",
               .expected = "a file",
               .got = "a folder"});
  }
  std::string name;
  Descriptor file = create_beside(target, folder, name);
  if (file.get() < 0) {
    const int code = errno;
    fail(path, "write", code, code == ENOENT ? str("create the folder ", folder.string()) : "");
  }
  Temporary temporary(name);
  for (const auto& part : parts) write_all(file.get(), part, path);
  copy_mode(target, file.get(), path);
  if (::fsync(file.get()) != 0) fail(path, "write", errno);
  if (file.close() != 0) fail(path, "write", errno);
  if (::rename(name.c_str(), target.c_str()) != 0) fail(path, "replace", errno);
  temporary.keep();
  sync_folder(folder);
}

void write_file_atomic(const fs::path& path, std::string_view text) {
  write_file_atomic(path, std::vector{std::as_bytes(std::span(text))});
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
  size_ = static_cast<std::size_t>(status.st_size);
  if (size_ == 0) return;
  void* data = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (data == MAP_FAILED) fail(path, "map", errno);
  data_ = static_cast<const std::byte*>(data);
}

MappedFile::~MappedFile() { unmap(); }

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  if (this != &other) {
    unmap();
    path_ = std::move(other.path_);
    data_ = std::exchange(other.data_, nullptr);
    size_ = std::exchange(other.size_, 0);
  }
  return *this;
}

void MappedFile::unmap() noexcept {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

}  // namespace mneme
