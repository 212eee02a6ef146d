// SIGINT, SIGTERM and SIGHUP as a request to stop at the next step.
#pragma once

#include <signal.h>

#include <string>

namespace mneme::cli {

// From now on one waiting thread takes the three signals, and this thread and those that it starts
// block them: no handler runs on a thread that computes. A signal that was ignored at the start
// stays so (nohup; a shell's background jobs). To be called once, before any other thread is there.
//
// A signal ends the process, with a line on stderr and as that signal does, while no InterruptGuard
// lives. While one lives, the first signal is stored, and when the command does not stop within two
// seconds a line says what it is waiting for: the hook that does not return, or the step. Signals
// within the next half second belong to the same request (launchers signal the process and its
// group); a later one ends the process at once.
//
// Where a terminal's Ctrl-C has ended the reader of the pipe that is stderr, stderr becomes the
// terminal.
void take_stop_signals();

// The mask that the process was started with, for programs that it starts.
[[nodiscard]] sigset_t inherited_signal_mask();

// While it lives, a signal asks the command to stop in order. One at a time.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

  // The signal that arrived; 0 = none. After a call that returns one, the command is expected to
  // stop.
  [[nodiscard]] static int signal();
};

// Thrown at a step boundary to leave a run. No std::exception: nothing but the command that threw
// it may catch it.
struct Interrupted {
  int signal = 0;
};

// Throws Interrupted when a signal has arrived.
void throw_if_interrupted();

// "SIGINT", "SIGTERM" or "SIGHUP".
[[nodiscard]] std::string signal_name(int signal);

}  // namespace mneme::cli
