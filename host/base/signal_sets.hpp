// Sets of signals.
#pragma once

#include <signal.h>

#include <initializer_list>

namespace mneme {

inline sigset_t signal_set(std::initializer_list<int> signals) {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : signals) sigaddset(&set, signal);
  return set;
}

// All but what a thread's own instructions raise, and abort(3): those must not be blocked.
inline sigset_t signals_that_can_wait() {
  sigset_t set;
  sigfillset(&set);
  for (const int fault : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGSYS, SIGABRT}) {
    sigdelset(&set, fault);
  }
  return set;
}

}  // namespace mneme
