// Whole files: read, map, write atomically. Every failure is an Error (kRun) that names the path
// and the system's reason.
#pragma once

#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace mneme {

// Upper limits of bytes read: from a pipe or a device, which may never end, and from a
// configuration file.
inline constexpr std::uint64_t kMaxStreamBytes = std::uint64_t{256} << 20;
inline constexpr std::uint64_t kMaxConfigBytes = std::uint64_t{16} << 20;

// Throws the Error of a system call that failed with `code`: "PATH: cannot ACTION: the reason".
[[noreturn]] void fail_file(const std::filesystem::path& path, const std::string& action, int code,
                            const std::string& hint = "");

// `" (did you mean \"runs/first\"?)"` for a path that is not there: the nearest of the names beside
// it, or else of those in the folder `further` ("" = none). A name without an extension is compared
// with names without theirs. "" where no name is near. Hidden files are not named.
[[nodiscard]] std::string did_you_mean_path(const std::filesystem::path& missing,
                                            const std::filesystem::path& further = {});

// Throws the Error of a file that is not there, with the text of did_you_mean_path or, for a
// symbolic link, with its target.
[[noreturn]] void fail_missing(const std::filesystem::path& path,
                               const std::filesystem::path& further = {});

// Throws that Error for a symbolic link to what is not there, which exists() takes for no file.
void require_link_target(const std::filesystem::path& path);

// The whole file, a text, as bytes in a string. A folder, a missing or an unreadable file is an
// Error, and so is one of more than `limit` bytes (0: kMaxStreamBytes for what is no regular file,
// no limit for regular ones). Error (kUsage) for a file of a kind that is no text (check_is_text).
[[nodiscard]] std::string read_file(const std::filesystem::path& path, std::uint64_t limit = 0);

// The Error that read_file would throw for a folder, a missing or an unreadable file, before other
// work is done. A pipe is left alone: opening it would wait for its writer.
void check_readable(const std::filesystem::path& path);

// Replaces `path` by the concatenation of `parts`: writes a temporary file beside it, fsyncs it,
// renames it over `path` and fsyncs the folder. Readers see the old or the new file, never a part.
// On failure the temporary file is removed and the old file stays. A symbolic link stays: the file
// that it names, there already or not, is replaced. A FIFO, device or socket (OutputPlace in
// write_file.hpp) is written into; opening a FIFO waits for its reader, and a reader that has gone
// is an Error, not a SIGPIPE.
void write_file_atomic(const std::filesystem::path& path,
                       const std::vector<std::span<const std::byte>>& parts);
void write_file_atomic(const std::filesystem::path& path, std::string_view text);

// Who writes into a folder while its leftovers are removed.
enum class Writers {
  kCallerAlone,  // the caller holds the folder's lock: every temporary file is a leftover
  kAny,          // a leftover is that of a process that has ended
};

// Removes the temporary files that write_file_atomic left in `folder` when its process was killed:
// of files whose names begin with one of `names`, of all for an empty list. Reports nothing: what
// cannot be removed stays.
void remove_temporaries(const std::filesystem::path& folder, Writers writers,
                        const std::vector<std::string>& names = {});

// A file mapped read-only for the object's lifetime. Movable, not copyable. An empty file maps to
// an empty span. Another process that truncates the file meanwhile makes access fault; replace
// files by rename (write_file_atomic), which leaves existing maps intact.
class MappedFile {
 public:
  explicit MappedFile(const std::filesystem::path& path);

  [[nodiscard]] std::span<const std::byte> bytes() const noexcept {
    return data_ == nullptr ? std::span<const std::byte>()
                            : std::span(data_.get(), data_.get_deleter().size);
  }
  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }

 private:
  struct Unmap {
    std::size_t size;
    void operator()(const std::byte* data) const noexcept;
  };

  std::filesystem::path path_;
  std::unique_ptr<const std::byte, Unmap> data_;  // null for an empty file
};

// A file descriptor that is closed with its object.
class Descriptor {
 public:
  // Owns a descriptor that open(2) returned; below 0 = none.
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor() = default;
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }

  [[nodiscard]] int get() const { return fd_; }
  // Closes now; the result of close(2).
  int close() { return ::close(std::exchange(fd_, -1)); }

 private:
  int fd_ = -1;
};

// Writes all bytes to a descriptor. 0, or the errno of the failure.
[[nodiscard]] int write_bytes(int fd, std::span<const std::byte> bytes);
// Syncs a folder to the disk. Some file systems cannot; the files in it are safe by then.
void sync_folder(const std::filesystem::path& folder);

}  // namespace mneme
