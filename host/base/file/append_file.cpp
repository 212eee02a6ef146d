#include "host/base/file/append_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "host/base/error.hpp"
#include "host/base/file/file.hpp"

namespace mneme {
namespace {

[[noreturn]] void fail_append(const std::filesystem::path& path, const std::string& action, int code) {
  fail_file(path, action, code,
            code == ENOSPC || code == EDQUOT || code == EFBIG ? "make room on the disk" : "");
}

}  // namespace

AppendFile::AppendFile(const std::filesystem::path& path)
    : path_(path),
      descriptor_(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666)) {
  if (descriptor_ < 0) fail_append(path_, "open to append", errno);
}

AppendFile::~AppendFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

AppendFile::AppendFile(AppendFile&& other) noexcept
    : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)) {}

void AppendFile::append(std::span<const std::byte> record) {
  struct stat before {};
  if (::fstat(descriptor_, &before) != 0) fail_append(path_, "read its size", errno);
  while (!record.empty()) {
    const ssize_t written = ::write(descriptor_, record.data(), record.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      const int code = errno;
      // Takes back what of the record was written before the disk was full.
      static_cast<void>(::ftruncate(descriptor_, before.st_size));
      fail_append(path_, "append", code);
    }
    record = record.subspan(static_cast<std::size_t>(written));
  }
}

void AppendFile::append(std::string_view record) { append(std::as_bytes(std::span(record))); }

void AppendFile::sync() {
  // A pipe or a device has nothing to sync.
  if (::fsync(descriptor_) != 0 && errno != EINVAL) fail_append(path_, "sync", errno);
}

}  // namespace mneme
