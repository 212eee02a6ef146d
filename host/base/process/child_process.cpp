#include "host/base/process/child_process.hpp"

#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <utility>

#include "host/base/exit_status.hpp"
#include "host/base/text.hpp"

namespace mneme {
namespace {

bool g_has_parent = false;

}  // namespace

std::string ChildEnd::text() const {
  if (signal != 0) return signal_text(signal);
  return exit_code < 0 ? std::string("an end that nobody knows") : str("exit status ", exit_code);
}

ChildProcess::ChildProcess(Launch options) : pipe_(options.program) {
  options.err = pipe_.writer();
  options.environment.push_back(str(kParentVariable, '=', ::getpid()));
  id_ = launch(options);
  pipe_.close_writer();
}

ChildProcess::~ChildProcess() {
  if (!end_ && id_ > 0) {
    ::kill(id_, SIGKILL);
    while (::waitpid(id_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
}

void ChildProcess::send(int signal) const {
  if (!end_) ::kill(id_, signal);
}

std::vector<std::string> ChildProcess::read_lines() {
  pipe_.drain(text_);
  std::vector<std::string> lines;
  std::size_t begin = 0;
  for (std::size_t end = text_.find('\n'); end != std::string::npos;
       end = text_.find('\n', begin)) {
    lines.push_back(text_.substr(begin, end - begin));
    begin = end + 1;
  }
  text_.erase(0, begin);
  if (pipe_.reader() < 0 && !text_.empty()) lines.push_back(std::exchange(text_, {}));
  return lines;
}

const std::optional<ChildEnd>& ChildProcess::poll_end() {
  if (end_) return end_;
  int status = 0;
  const pid_t found = ::waitpid(id_, &status, WNOHANG);
  if (found < 0 && errno == ECHILD) end_ = ChildEnd{};  // it has ended, and its status is lost
  if (found != id_) return end_;
  end_ = WIFEXITED(status) ? ChildEnd{.exit_code = WEXITSTATUS(status)}
                           : ChildEnd{.signal = WTERMSIG(status)};
  return end_;
}

void ChildProcess::wait_for_any(const std::vector<ChildProcess*>& children, int milliseconds) {
  std::vector<pollfd> waiting;
  for (const ChildProcess* child : children) {
    if (child->pipe_.reader() >= 0) waiting.push_back({child->pipe_.reader(), POLLIN, 0});
  }
  // A process whose stderr is closed comes to its end at once, so nothing is waited for long.
  ::poll(waiting.data(), waiting.size(), waiting.empty() ? 5 : milliseconds);
}

void stop_with_parent() {
  const char* const parent = std::getenv(kParentVariable);
  if (parent == nullptr) return;
  g_has_parent = true;
  const auto id = static_cast<pid_t>(std::atol(parent));
  ::unsetenv(kParentVariable);  // programs that this one starts have another parent
  std::signal(SIGPIPE, SIG_IGN);
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != id) std::_Exit(exit_code_of_signal(SIGTERM));
}

bool has_parent() { return g_has_parent; }

}  // namespace mneme
