#include "host/cli/unread_output.hpp"

#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>

namespace mneme::cli {
namespace {

constinit std::atomic<bool> g_is_taken{false};
constinit std::atomic<bool> g_goes_on{false};
static_assert(std::atomic<bool>::is_always_lock_free);  // the handler reads them

// May run in a signal handler.
bool has_lost_reader(int descriptor) {
  pollfd asked{descriptor, 0, 0};
  return ::poll(&asked, 1, 0) == 1 && (asked.revents & (POLLERR | POLLHUP)) != 0;
}

extern "C" void on_broken_pipe(int signal) {
  const int before = errno;
  if (!g_goes_on && has_lost_reader(STDOUT_FILENO)) {
    std::signal(signal, SIG_DFL);
    std::raise(signal);  // ends the process when this handler returns
  }
  errno = before;
}

}  // namespace

void take_broken_pipes() {
  struct sigaction action {};
  sigaction(SIGPIPE, nullptr, &action);
  if (action.sa_handler != SIG_DFL) return;
  action = {};
  action.sa_handler = &on_broken_pipe;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(SIGPIPE, &action, nullptr);
  g_is_taken = true;
}

void go_on_unread() { g_goes_on = true; }

bool is_stdout_unread() { return has_lost_reader(STDOUT_FILENO); }

bool ends_unread() { return g_is_taken; }

}  // namespace mneme::cli
