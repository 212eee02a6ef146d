// Other programs in processes of their own: run with a time limit, or started by child_process.hpp.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace mneme {

class OutputPipe;  // output_pipe.hpp

// A program to start, without a shell.
struct Launch {
  std::string program;                      // the path of an executable
  std::vector<std::string> arguments = {};  // after the program's name
  std::vector<std::string> environment =
      {};  // "NAME=value", in place of this process's variable NAME
  std::optional<sigset_t> signal_mask = std::nullopt;  // default: this process's
  int in = -1;                 // descriptor that becomes its stdin; -1 = /dev/null
  int out = -1;                // its stdout, likewise
  int err = -1;                // its stderr, likewise
  bool has_own_group = false;  // a process group of its own
};

// Starts it; signals that this process ignores have their default actions. The process is not
// forked: this is safe with any number of threads. Returns its number. Error (kRun) when it cannot
// be started.
[[nodiscard]] pid_t launch(const Launch& options);

// When a child that is waited for is killed.
struct ChildLimits {
  double seconds = 0.0;  // after this time; 0 = no limit
  // Asked every tenth of a second; true kills the child. Empty: never.
  std::function<bool()> is_cancelled = nullptr;
};

struct ChildOptions {
  Launch launch;  // without descriptors; its group is its own in any case
  ChildLimits limits = {};
};

struct ChildResult {
  int exit_code = -1;  // -1: a signal ended it, or nobody knows, as this process ignores SIGCHLD
  int signal = 0;      // that ended it; 0: it exited
  bool is_timed_out = false;
  bool is_cancelled = false;
  double seconds = 0.0;  // that it ran
  std::string out, err;  // what it wrote, the newest 64 KiB of each
};

// Starts the program without a shell and waits for its end. It reads nothing (/dev/null), runs in a
// process group of its own, and the whole group is killed when the time is over, when the caller
// cancels and when the program has ended, so that nothing it started is left. Signals that this
// process ignores have their default actions. The process is not forked: this is safe with any
// number of threads. Error (kRun) when the program cannot be started.
[[nodiscard]] ChildResult run_child(const ChildOptions& options);

// Waits for the end of a child that leads a process group of its own and writes to these pipes, as
// run_child does; the pipes' writing ends are closed here.
[[nodiscard]] ChildResult watch_child(pid_t child, OutputPipe& out, OutputPipe& err,
                                      const ChildLimits& limits);

// "signal 11 (SIGSEGV)"; only the number for an unusual one.
[[nodiscard]] std::string signal_text(int signal);

}  // namespace mneme
