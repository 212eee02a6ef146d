#include "host/base/process/child.hpp"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <system_error>
#include <utility>

#include "host/base/error.hpp"
#include "host/base/file/output_pipe.hpp"
#include "host/base/process/process.hpp"
#include "host/base/text.hpp"

namespace mneme {
namespace {

using Instant = std::chrono::steady_clock::time_point;

constexpr std::size_t kKeptBytes = 64 * 1024;
constexpr int kTickMs = 100;
constexpr int kEndTickMs = 5;  // once both pipes are closed the process ends at once

// Takes what is there; of a long text the end.
void take(OutputPipe& pipe, std::string& text) {
  pipe.drain(text);
  if (text.size() > 2 * kKeptBytes) text.erase(0, text.size() - kKeptBytes);
}

// The environment with the given entries in place of others of their names.
std::vector<std::string> environment_with(const std::vector<std::string>& entries) {
  std::vector<std::string> all = entries;
  const auto is_given = [&](const std::string& entry) {
    const std::string name = entry.substr(0, entry.find('=') + 1);
    return std::ranges::any_of(entries, [&](const auto& one) { return one.starts_with(name); });
  };
  for (char* const* entry = environ; *entry != nullptr; ++entry) {
    if (!is_given(*entry)) all.emplace_back(*entry);
  }
  return all;
}

std::vector<char*> pointers_to(std::vector<std::string>& words) {
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  return pointers;
}

// Signals other than the two that no program can set.
sigset_t settable_signals() {
  sigset_t set;
  sigfillset(&set);
  sigdelset(&set, SIGKILL);
  sigdelset(&set, SIGSTOP);
  return set;
}

}  // namespace

pid_t launch(const Launch& options) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  for (const auto& [from, to] :
       {std::pair(options.in, STDIN_FILENO), std::pair(options.out, STDOUT_FILENO),
        std::pair(options.err, STDERR_FILENO)}) {
    if (from < 0) {
      const int access = to == STDIN_FILENO ? O_RDONLY : O_WRONLY;
      posix_spawn_file_actions_addopen(&actions, to, "/dev/null", access, 0);
    } else {
      posix_spawn_file_actions_adddup2(&actions, from, to);
    }
  }
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  const sigset_t defaults = settable_signals();
  posix_spawnattr_setsigdefault(&attributes, &defaults);
  int flags = POSIX_SPAWN_SETSIGDEF;
  if (options.has_own_group) {
    posix_spawnattr_setpgroup(&attributes, 0);
    flags |= POSIX_SPAWN_SETPGROUP;
  }
  if (options.signal_mask) {
    posix_spawnattr_setsigmask(&attributes, &*options.signal_mask);
    flags |= POSIX_SPAWN_SETSIGMASK;
  }
  posix_spawnattr_setflags(&attributes, static_cast<short>(flags));
  std::vector<std::string> words = {options.program};
  words.insert(words.end(), options.arguments.begin(), options.arguments.end());
  std::vector<std::string> environment = environment_with(options.environment);
  pid_t child = -1;
  const int failure = ::posix_spawn(&child, options.program.c_str(), &actions, &attributes,
                                    pointers_to(words).data(), pointers_to(environment).data());
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (failure != 0) {
    throw_run({.where = options.program,
               .failed = "cannot be started: " + std::generic_category().message(failure),
               .expected = "an executable file"});
  }
  return child;
}

namespace {

// Whether the process has ended. It is not reaped yet, so that its number belongs to its group.
bool has_ended(pid_t child) {
  siginfo_t info{};
  if (::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOHANG | WNOWAIT) != 0) {
    return errno != EINTR;
  }
  return info.si_pid == child;
}

// A parent that was started with SIGCHLD ignored gets no status: exit_code stays -1, signal 0.
void reap(pid_t child, ChildResult& result) {
  int status = 0;
  pid_t found = -1;
  do {
    found = ::waitpid(child, &status, 0);
  } while (found < 0 && errno == EINTR);
  if (found == child && WIFEXITED(status)) result.exit_code = WEXITSTATUS(status);
  if (found == child && WIFSIGNALED(status)) result.signal = WTERMSIG(status);
}

}  // namespace

ChildResult run_child(const ChildOptions& options) {
  OutputPipe out(options.launch.program), err(options.launch.program);
  Launch start_with = options.launch;
  start_with.out = out.writer();
  start_with.err = err.writer();
  start_with.has_own_group = true;
  return watch_child(launch(start_with), out, err, options.limits);
}

ChildResult watch_child(pid_t child, OutputPipe& out, OutputPipe& err, const ChildLimits& limits) {
  const Instant start = std::chrono::steady_clock::now();
  const auto elapsed = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  out.close_writer();
  err.close_writer();
  ChildResult result;
  while (!has_ended(child)) {
    const bool is_killed = result.is_timed_out || result.is_cancelled;
    if (!is_killed) {
      result.is_timed_out = limits.seconds > 0.0 && elapsed() >= limits.seconds;
      result.is_cancelled = limits.is_cancelled && limits.is_cancelled();
      if (result.is_timed_out || result.is_cancelled) ::kill(-child, SIGKILL);
    }
    std::array<pollfd, 2> waiting{pollfd{out.reader(), POLLIN, 0}, pollfd{err.reader(), POLLIN, 0}};
    const bool is_closed = waiting[0].fd < 0 && waiting[1].fd < 0;
    const double left = limits.seconds > 0.0 ? (limits.seconds - elapsed()) * 1000.0 + 1.0 : 1e9;
    const int tick = is_closed ? kEndTickMs : kTickMs;
    ::poll(waiting.data(), waiting.size(),
           std::clamp(static_cast<int>(std::min(left, 1e6)), 1, tick));
    take(out, result.out);
    take(err, result.err);
  }
  result.seconds = elapsed();
  ::kill(-child, SIGKILL);  // what the program has started
  reap(child, result);
  take(out, result.out);
  take(err, result.err);
  for (std::string* text : {&result.out, &result.err}) {
    if (text->size() > kKeptBytes) text->erase(0, text->size() - kKeptBytes);
  }
  return result;
}

std::string signal_text(int signal) {
  const char* const name = ::sigabbrev_np(signal);
  return name == nullptr ? str("signal ", signal) : str("signal ", signal, " (SIG", name, ')');
}

}  // namespace mneme
