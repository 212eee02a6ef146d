#include "host/cli/interrupt.hpp"

#include <csignal>

namespace mneme::cli {
namespace {

volatile std::sig_atomic_t g_signal = 0;

// Both signals, each of which waits while the other is handled. Async-signal-safe.
void set_handlers(void (*handler)(int), int flags) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = flags;
  sigemptyset(&action.sa_mask);
  for (const int signal : {SIGINT, SIGTERM}) sigaddset(&action.sa_mask, signal);
  for (const int signal : {SIGINT, SIGTERM}) sigaction(signal, &action, nullptr);
}

extern "C" void remember_signal(int signal) {
  g_signal = signal;
  // SA_RESETHAND would give up this signal alone: the other one would only be remembered.
  set_handlers(SIG_DFL, 0);
}

}  // namespace

InterruptGuard::InterruptGuard() {
  g_signal = 0;
  set_handlers(&remember_signal, SA_RESTART);
}

InterruptGuard::~InterruptGuard() { set_handlers(SIG_DFL, 0); }

int InterruptGuard::signal() { return g_signal; }

void throw_if_interrupted() {
  if (InterruptGuard::signal() != 0) throw Interrupted{InterruptGuard::signal()};
}

std::string signal_name(int signal) { return signal == SIGINT ? "SIGINT" : "SIGTERM"; }

}  // namespace mneme::cli
