#include "host/base/child_process.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <system_error>
#include <utility>

#include "host/base/error.hpp"
#include "host/base/text.hpp"

namespace mneme {
std::string ChildEnd::text() const {
  if (signal == 0) return str("exit status ", exit_code);
  return signal_text(signal);
}

ChildProcess::ChildProcess(Launch options) {
  std::array<int, 2> ends{-1, -1};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    const int code = errno;
    throw_run({.where = options.program,
               .failed = "no pipe for its output: " + std::generic_category().message(code),
               .hint = "close other programs, or raise the limit of open files (ulimit -n)"});
  }
  pipe_ = ends[0];
  ::fcntl(pipe_, F_SETFL, O_NONBLOCK);
  options.err = ends[1];
  options.environment.push_back(str(kParentVariable, '=', ::getpid()));
  try {
    id_ = launch(options);
  } catch (...) {
    ::close(ends[0]);
    ::close(ends[1]);
    throw;
  }
  ::close(ends[1]);
}

ChildProcess::~ChildProcess() {
  if (!end_ && id_ > 0) {
    ::kill(id_, SIGKILL);
    while (::waitpid(id_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  if (pipe_ >= 0) ::close(pipe_);
}

void ChildProcess::send(int signal) const {
  if (!end_) ::kill(id_, signal);
}

void ChildProcess::read_available() {
  std::array<char, 4096> piece{};
  while (pipe_ >= 0) {
    const ssize_t count = ::read(pipe_, piece.data(), piece.size());
    if (count > 0) {
      text_.append(piece.data(), static_cast<std::size_t>(count));
    } else if (count < 0 && errno == EINTR) {
      continue;
    } else if (count < 0 && errno == EAGAIN) {
      return;
    } else {
      ::close(pipe_);
      pipe_ = -1;
    }
  }
}

std::vector<std::string> ChildProcess::read_lines() {
  read_available();
  std::vector<std::string> lines;
  std::size_t begin = 0;
  for (std::size_t end = text_.find('\n'); end != std::string::npos;
       end = text_.find('\n', begin)) {
    lines.push_back(text_.substr(begin, end - begin));
    begin = end + 1;
  }
  text_.erase(0, begin);
  if (pipe_ < 0 && !text_.empty()) lines.push_back(std::exchange(text_, {}));
  return lines;
}

const std::optional<ChildEnd>& ChildProcess::poll_end() {
  if (end_) return end_;
  int status = 0;
  if (::waitpid(id_, &status, WNOHANG) != id_) return end_;
  end_ = WIFEXITED(status) ? ChildEnd{.exit_code = WEXITSTATUS(status)}
                           : ChildEnd{.signal = WTERMSIG(status)};
  return end_;
}

void ChildProcess::wait_for_any(const std::vector<ChildProcess*>& children, int milliseconds) {
  std::vector<pollfd> waiting;
  for (const ChildProcess* child : children) {
    if (child->pipe_ >= 0) waiting.push_back({child->pipe_, POLLIN, 0});
  }
  // A process whose stderr is closed comes to its end at once, so nothing is waited for long.
  ::poll(waiting.data(), waiting.size(), waiting.empty() ? 5 : milliseconds);
}

void stop_with_parent() {
  const char* const parent = std::getenv(kParentVariable);
  if (parent == nullptr) return;
  const auto id = static_cast<pid_t>(std::atol(parent));
  ::unsetenv(kParentVariable);  // programs that this one starts have another parent
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != id) std::_Exit(128 + SIGTERM);
}

}  // namespace mneme
