// The command line: the one place that prints, and that turns errors into exit codes.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "host/base/error.hpp"
#include "host/base/text.hpp"
#include "host/cli/streams.hpp"

namespace mneme::cli {

// Runs `mneme` with its arguments. Never throws: what fails is written to streams.err, and the
// result is the exit code: 0 done, 1 run failed, 2 wrong use or configuration, 3 plugin, 4 device.
[[nodiscard]] int main_entry(int argc, const char* const* argv, const Streams& streams) noexcept;

}  // namespace mneme::cli

namespace CLI {

// Functions that register the subcommands, and helpers that they share.

class App;
}  // namespace CLI

namespace mneme::cli {

// A subcommand whose arguments were read. Returns the exit code; throws Error.
using Action = std::function<int(const Streams&)>;

// Each adds one subcommand to `app`; when the user names it, parsing sets `action`.
void add_train(CLI::App& app, Action& action);
void add_eval(CLI::App& app, Action& action);
void add_generate(CLI::App& app, Action& action);
void add_compare(CLI::App& app, Action& action);
void add_analyze(CLI::App& app, Action& action);
void add_config(CLI::App& app, Action& action);
void add_data(CLI::App& app, Action& action);
void add_plugins(CLI::App& app, Action& action);
void add_abi(CLI::App& app, Action& action);
void add_import(CLI::App& app, Action& action);
void add_export(CLI::App& app, Action& action);
void add_inspect(CLI::App& app, Action& action);
void add_doctor(CLI::App& app, Action& action);

// Ends the command's --help with examples, one command line each.
void set_examples(CLI::App& command, const std::vector<std::string>& examples);

// Memories of a command that failed while others go on.

// Each failure is reported at once; when all memories have failed, the last failure ends the
// command.
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

// The message of a process that crashes or exits inside a call into a plugin.

// From now on a fault (SIGSEGV, SIGBUS, SIGILL, SIGFPE) or an abort says on stderr which call into
// a plugin ran, if one did, and the process dies by the same signal; exit() inside such a call is
// said too, and the exit status is that of a plugin's error. Signals that already have a handler (a
// sanitizer's, a debugger's) keep it. To be called once, on the main thread, which gets a stack for
// it: a hook may have used up its own.
void name_culprits();

}  // namespace mneme::cli
