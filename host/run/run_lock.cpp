#include "host/run/run_lock.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string>
#include <system_error>

#include "host/base/error.hpp"
#include "host/run/metrics/host_name.hpp"

namespace mneme::run {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const fs::path& path, int code) {
  throw_run(
      {.where = path.string(),
       .failed = str("the run's folder cannot be locked: ", std::generic_category().message(code)),
       .hint = "name a folder that this user may write, on a file system with locks"});
}

// What the holder wrote; it may be about to.
std::string holder(int descriptor) {
  std::array<char, 256> text{};
  const ssize_t count = ::pread(descriptor, text.data(), text.size(), 0);
  const std::string line(text.data(), static_cast<std::size_t>(count > 0 ? count : 0));
  const std::size_t space = line.find(' ');
  if (space == std::string::npos) return "another process";
  const std::size_t end = line.find('\n');
  return str("process ", line.substr(0, space), " on ", line.substr(space + 1, end - space - 1));
}

}  // namespace

RunLock::RunLock(const fs::path& folder) {
  const fs::path path = folder / "lock";
  descriptor_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (descriptor_ < 0) fail(path, errno);
  if (::flock(descriptor_, LOCK_EX | LOCK_NB) != 0) {
    const int code = errno;
    const std::string who = holder(descriptor_);
    ::close(descriptor_);
    if (code != EWOULDBLOCK) fail(path, code);
    throw_usage({.where = folder.string(),
                 .failed = "the run's folder is in use",
                 .expected = "a folder that no other process writes",
                 .got = who,
                 .hint = "wait for it, stop it, or name another folder"});
  }
  const std::string text = str(::getpid(), ' ', host_name(), '\n');
  // Who holds the lock is told for messages only: a full disk is no reason to refuse it.
  static_cast<void>(::ftruncate(descriptor_, 0));
  static_cast<void>(!::pwrite(descriptor_, text.data(), text.size(), 0));
}

RunLock::~RunLock() {
  static_cast<void>(::ftruncate(descriptor_, 0));
  ::close(descriptor_);
}

}  // namespace mneme::run
