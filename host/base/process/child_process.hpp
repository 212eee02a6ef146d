// Programs that this one starts, and what they print while they run.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "host/base/file/output_pipe.hpp"
#include "host/base/process/child.hpp"

namespace mneme {

// How a process came to its end. Neither is known (-1 and 0) when this process ignores SIGCHLD: the
// system keeps no status of children then.
struct ChildEnd {
  int exit_code = -1;  // -1 when a signal ended it
  int signal = 0;

  // "exit status 1", "signal 11 (SIGSEGV)", "an end that nobody knows".
  [[nodiscard]] std::string text() const;
};

// A running program. Its stdout is dropped, its stderr is read line by line. It is killed when the
// object is destroyed, and asked to stop (SIGTERM) when this process ends in any way, provided that
// it calls stop_with_parent(). One thread at a time: the one that makes it, for the system ties a
// child to the thread that started it.
class ChildProcess {
 public:
  // `options` without descriptors. Error (kRun) naming the program when it cannot be started.
  explicit ChildProcess(Launch options);
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  void send(int signal) const;
  // Lines of stderr that have arrived since the last call, without their ends; a line without an
  // end comes when stderr has been closed. Does not wait.
  [[nodiscard]] std::vector<std::string> read_lines();
  // How the program ended; nullopt while it runs. Does not wait.
  [[nodiscard]] const std::optional<ChildEnd>& poll_end();

  // Returns when one of them has printed something or closed its stderr, and at the latest after
  // `milliseconds`, or when a signal has arrived.
  static void wait_for_any(const std::vector<ChildProcess*>& children, int milliseconds);

 private:
  pid_t id_ = -1;
  OutputPipe pipe_;  // stderr
  std::string text_;
  std::optional<ChildEnd> end_;
};

// The variable by which a ChildProcess learns who started it.
inline constexpr const char* kParentVariable = "MNEME_PARENT";

// For a program's beginning: when a ChildProcess of a parent that names itself in kParentVariable,
// asks the system for SIGTERM at the parent's end, and ends at once when that has already come.
// Ignores SIGPIPE: after the parent's end nobody reads what this process prints, and it shall save.
void stop_with_parent();
// Whether it found such a parent: a program that waits for what this process leaves.
[[nodiscard]] bool has_parent();

}  // namespace mneme
