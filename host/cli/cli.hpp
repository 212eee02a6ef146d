// The command line: the one place that prints, and that turns errors into exit codes.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "host/base/error.hpp"
#include "host/base/text.hpp"
#include "host/cli/streams.hpp"

namespace mneme::cli {

// Runs `mneme` with its arguments. Never throws: what fails is written to streams.err, and the
// result is the exit code: 0 done, 1 run failed, 2 wrong use or configuration, 3 plugin, 4 device.
[[nodiscard]] int main_entry(int argc, const char* const* argv, const Streams& streams) noexcept;

// Runs `mneme-report` with its arguments, likewise. It computes nothing with LibTorch and loads no
// plugin.
[[nodiscard]] int report_entry(int argc, const char* const* argv, const Streams& streams) noexcept;

class Command;

// Each adds one subcommand to the program.
void add_train(const Command& app);
void add_eval(const Command& app);
void add_score(const Command& app);
void add_certify(const Command& app);
void add_decode(const Command& app);
void add_generate(const Command& app);
void add_serve(const Command& app);
void add_compare(const Command& app);
void add_report(const Command& app);
void add_verify(const Command& app);
void add_plan(const Command& app);
void add_plan_of_folders(const Command& app);  // of a pilot that is there
void add_analyze(const Command& app);
void add_config(const Command& app);
void add_data(const Command& app);
void add_plugins(const Command& app);
void add_abi(const Command& app);
void add_import(const Command& app);
void add_export(const Command& app);
void add_inspect(const Command& app);
void add_doctor(const Command& app);
void add_completion(const Command& app);

// The memories that failed in a command that continues with the others. Each failure is reported at
// once; when all memories have failed, the last failure ends the command.
class Failures {
 public:
  Failures(const Streams& streams, std::size_t memories) : streams_(streams), memories_(memories) {}

  // Throws the Error, prefixed by the name, when no memory is left.
  void add(const std::string& name, const Error& error);
  // The first one's exit status; 0 without any.
  [[nodiscard]] int exit_code() const;
  // [{"name", "message", "exit_code"}]
  [[nodiscard]] Json json() const;

 private:
  struct Failure {
    std::string name;
    Error error;
  };
  const Streams& streams_;
  std::size_t memories_;
  std::vector<Failure> all_;
};

// From now on a fault (SIGSEGV, SIGBUS, SIGILL, SIGFPE) or an abort prints on stderr which call
// into a plugin ran, if one did, and the process dies by the same signal; exit() inside such a call
// is reported too, with the exit status of a plugin's error. Signals that already have a handler (a
// sanitizer's, a debugger's) keep it. Call once, on the main thread; the handler runs on a stack of
// its own, because a hook may have overflowed the thread's.
void report_crashes();

// Prints why a process that runs a plugin has to end now, and ends it with the exit status of a
// plugin's error. On any thread.
void end_late(const std::string& message);

}  // namespace mneme::cli
