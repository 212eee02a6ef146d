// Commands of this program, each in a process of its own that is forked from one which has loaded
// everything: to load LibTorch takes several times as long as a small check.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "host/base/process/child.hpp"

namespace mneme::trial {

// A process of this program that waits for commands; started with the first one. One thread at a
// time, the one that made it. It ends, with what it runs, when this object or this process does.
class WarmProgram {
 public:
  // `signal_mask`: of the processes.
  explicit WarmProgram(const sigset_t& signal_mask) : signal_mask_(signal_mask) {}
  ~WarmProgram();
  WarmProgram(const WarmProgram&) = delete;
  WarmProgram& operator=(const WarmProgram&) = delete;

  // Runs `mneme ARGUMENTS...` as run_child(limited_child(arguments, seconds, signal_mask)) does: the same
  // output, limits and exit code. Error (kRun) when no process can be started.
  [[nodiscard]] ChildResult run(const std::vector<std::string>& arguments, std::int64_t seconds);

 private:
  void start();
  void stop();
  [[nodiscard]] std::optional<std::string> answer(const std::string& request);

  const sigset_t signal_mask_;
  pid_t id_ = -1;
  int requests_ = -1;  // its stdin
  int answers_ = -1;   // its stdout
};

// For main(), before it reads the command line: when this process is a WarmProgram's, runs what it
// is asked to, and returns the code with which main() ends: in each process that it forks that of
// the command, in its own one when nobody asks any more. `run_command` is the program with its
// arguments.
[[nodiscard]] std::optional<int> serve_if_asked(int (*run_command)(int argc,
                                                                   const char* const* argv));

}  // namespace mneme::trial
