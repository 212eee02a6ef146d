#include "host/base/file/output_pipe.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <system_error>

#include "host/base/error.hpp"

namespace mneme {
namespace {

// A pipe holds less; a program that never stops printing must not keep its reader here.
constexpr std::size_t kMaxAtOnce = std::size_t{1} << 20;

}  // namespace

OutputPipe::OutputPipe(const std::string& program) {
  std::array<int, 2> ends{-1, -1};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    const int code = errno;
    throw_run({.where = program,
               .failed = "no pipe for its output: " + std::generic_category().message(code),
               .hint = "close other programs, or raise the limit of open files (ulimit -n)"});
  }
  reader_ = Descriptor(ends[0]);
  writer_ = Descriptor(ends[1]);
  ::fcntl(reader(), F_SETFL, O_NONBLOCK);
}

void OutputPipe::drain(std::string& text) {
  std::array<char, 4096> piece{};
  for (std::size_t most = text.size() + kMaxAtOnce; reader() >= 0 && text.size() < most;) {
    const ssize_t count = ::read(reader(), piece.data(), piece.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) return;
    if (count <= 0) {
      reader_ = {};
      return;
    }
    text.append(piece.data(), static_cast<std::size_t>(count));
  }
}

}  // namespace mneme
