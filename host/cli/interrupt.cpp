#include "host/cli/interrupt.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <iostream>
#include <mutex>
#include <thread>

#include "host/base/process/process.hpp"
#include "host/base/text.hpp"
#include "host/plugin/reported_call.hpp"

namespace mneme::cli {
namespace {

using Steady = std::chrono::steady_clock;
using plugin::ReportedCall;

constexpr std::array kStopSignals = {SIGINT, SIGTERM, SIGHUP};
constexpr auto kOneRequest = std::chrono::milliseconds(500);
constexpr std::time_t kPatienceSeconds = 2;
constexpr int kReaderMs = 200;  // for the reader of a pipe to come to its end

// The waiting thread outlives main(), so the objects that it uses are never destroyed.
std::mutex& mutex() {
  static auto* const one = new std::mutex;
  return *one;
}
constinit bool g_is_guarded = false;  // under mutex()
constinit std::atomic<int> g_signal{0};
constinit std::atomic<bool> g_is_seen{false};  // the command knows of g_signal
constinit sigset_t g_inherited{};

// A line of its own, also behind a progress bar. One write: other threads write there too.
void say(const std::string& text) {
  const std::string line = str(::isatty(STDERR_FILENO) == 1 ? "\n" : "", "mneme: ", text, '\n');
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, line.data(), line.size());
}

// A terminal's Ctrl-C goes to all programs of a pipeline (`mneme ... 2>&1 | tee log`), and ends the
// one that reads stderr. What is still to be said, such as what was saved, goes to the terminal
// then.
void follow_reader(const siginfo_t& info) {
  if (info.si_signo != SIGINT || info.si_code != SI_KERNEL) return;  // sent by a process
  struct stat status {};
  if (::fstat(STDERR_FILENO, &status) != 0 || !S_ISFIFO(status.st_mode)) return;
  pollfd pipe{.fd = STDERR_FILENO, .events = 0, .revents = 0};
  if (::poll(&pipe, 1, kReaderMs) != 1 || (pipe.revents & POLLERR) == 0) return;
  const int terminal = ::open("/dev/tty", O_WRONLY | O_NOCTTY | O_CLOEXEC);
  if (terminal < 0) return;
  ::dup2(terminal, STDERR_FILENO);
  ::close(terminal);
}

// The stop request that the waiting thread watches.
struct Request {
  Steady::time_point at;
  std::uint64_t call = 0;  // that ran when it was looked at last
  bool is_step_said = false;
  bool is_call_said = false;
};

bool is_awaited() { return g_signal != 0 && !g_is_seen; }

// Called every kPatienceSeconds while the command does not stop.
void say_what_it_waits_for(Request& request) {
  const std::lock_guard lock(mutex());
  if (!g_is_guarded || !is_awaited()) return;
  const std::string second = "; a second signal ends the process at once, without saving";
  const ReportedCall::Text call = ReportedCall::text();
  const std::uint64_t serial = ReportedCall::serial();
  const bool is_same = serial != 0 && serial == request.call && call.size > 0;
  request.call = serial;
  if (is_same && !request.is_call_said) {
    request.is_call_said = true;
    say(str(signal_name(g_signal), ": ", call.view(), ": has not returned for ", kPatienceSeconds,
            " s; mneme stops when it does", second));
  } else if (!is_same && !request.is_step_said) {
    request.is_step_said = true;
    say(str(signal_name(g_signal), ": mneme stops when the running step is done", second));
  }
}

void take(int signal, Request& request) {
  const auto now = Steady::now();
  const std::lock_guard lock(mutex());
  if (g_signal != 0 && now - request.at < kOneRequest) return;
  if (!g_is_guarded) {
    say("stopped by " + signal_name(signal));
    end_by(signal);
  }
  if (g_signal != 0) {
    say(str("ended at once by a second signal, ", signal_name(signal)));
    end_by(signal);
  }
  request = {.at = now, .call = ReportedCall::serial()};
  g_is_seen = false;
  g_signal = signal;
}

[[noreturn]] void wait_for_signals(const sigset_t& signals) {
  const sigset_t all = signals_that_can_wait();
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
  const timespec patience{.tv_sec = kPatienceSeconds, .tv_nsec = 0};
  for (Request request;;) {
    siginfo_t info{};
    const int signal = sigtimedwait(&signals, &info, is_awaited() ? &patience : nullptr);
    if (signal > 0) {
      follow_reader(info);
      take(signal, request);
    } else if (errno == EAGAIN) {
      say_what_it_waits_for(request);
    }
  }
}

}  // namespace

void take_stop_signals() {
  sigset_t signals = signal_set({});
  for (const int signal : kStopSignals) {
    struct sigaction action {};
    sigaction(signal, nullptr, &action);
    if (action.sa_handler != SIG_IGN) sigaddset(&signals, signal);
  }
  pthread_sigmask(SIG_BLOCK, &signals, &g_inherited);
  static_cast<void>(mutex());
  std::thread([signals] { wait_for_signals(signals); }).detach();
}

sigset_t inherited_signal_mask() { return g_inherited; }

InterruptGuard::InterruptGuard() {
  const std::lock_guard lock(mutex());
  g_is_guarded = true;
  g_signal = 0;
}

InterruptGuard::~InterruptGuard() {
  const std::lock_guard lock(mutex());
  g_is_guarded = false;
}

int InterruptGuard::signal() {
  const int signal = g_signal;
  // A line that found no reader (follow_reader) must not keep later ones from the terminal.
  if (signal != 0 && !g_is_seen.exchange(true)) std::cerr.clear();
  return signal;
}

void throw_if_interrupted() {
  const int signal = InterruptGuard::signal();
  if (signal != 0) throw Interrupted{signal};
}

std::string signal_name(int signal) {
  return signal == SIGINT ? "SIGINT" : signal == SIGHUP ? "SIGHUP" : "SIGTERM";
}

}  // namespace mneme::cli
