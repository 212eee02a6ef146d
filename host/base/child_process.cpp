#include "host/base/child_process.hpp"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <system_error>
#include <utility>

#include "host/base/error.hpp"
#include "host/base/process.hpp"
#include "host/base/text.hpp"

namespace mneme {
namespace {

// This process's environment with these variables in place of its own.
std::vector<std::string> environment_with(const std::vector<std::string>& variables) {
  std::vector<std::string> out = variables;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const std::string name = text.substr(0, text.find('=') + 1);
    bool is_replaced = false;
    for (const std::string& variable : variables) is_replaced |= variable.starts_with(name);
    if (!is_replaced) out.push_back(text);
  }
  return out;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> out;
  for (std::string& text : texts) out.push_back(text.data());
  out.push_back(nullptr);
  return out;
}

// Starts the program with stderr at `write_end`; an errno, 0 when it runs.
int spawn(const ChildOptions& options, int write_end, pid_t& id) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, write_end, STDERR_FILENO);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  const sigset_t defaults = signal_set({SIGXFSZ, SIGPIPE});
  posix_spawnattr_setsigmask(&attributes, &options.signal_mask);
  posix_spawnattr_setsigdefault(&attributes, &defaults);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  std::vector<std::string> arguments{options.program.filename().string()};
  arguments.insert(arguments.end(), options.arguments.begin(), options.arguments.end());
  std::vector<std::string> variables = options.environment;
  variables.push_back(str(kParentVariable, '=', ::getpid()));
  std::vector<std::string> environment = environment_with(variables);
  const int failure = ::posix_spawn(&id, options.program.c_str(), &actions, &attributes,
                                    pointers(arguments).data(), pointers(environment).data());
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  return failure;
}

}  // namespace

std::string ChildEnd::text() const {
  if (signal == 0) return str("exit status ", exit_code);
  return str("signal ", signal, " (", ::strsignal(signal), ')');
}

ChildProcess::ChildProcess(const ChildOptions& options) {
  std::array<int, 2> ends{-1, -1};
  int failure = ::pipe2(ends.data(), O_CLOEXEC) == 0 ? 0 : errno;
  if (failure == 0) {
    failure = spawn(options, ends[1], id_);
    ::close(ends[1]);
    pipe_ = ends[0];
    ::fcntl(pipe_, F_SETFL, O_NONBLOCK);
  }
  if (failure == 0) return;
  if (pipe_ >= 0) ::close(pipe_);
  throw_run({.where = options.program.string(),
             .failed = "the program cannot be started: " + std::generic_category().message(failure),
             .hint = "close other programs, or raise the limit of processes or open files"});
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
