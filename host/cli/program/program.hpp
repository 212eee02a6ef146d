// What the programs of the project share: they read arguments, run a command, print its errors and
// turn them into exit codes.
#pragma once

#include <string>
#include <vector>

#include "host/cli/streams.hpp"

namespace mneme::cli {

class Command;

// What one program has of its own. Functions that are absent do nothing.
struct Program {
  std::string name;     // "mneme"
  std::string version;  // what --version prints behind the name
  std::string help;
  void (*add_commands)(const Command& program) = nullptr;  // required
  // The commands that the arguments stand for, which run one after the other.
  std::vector<std::vector<std::string>> (*commands)(const std::vector<std::string>& words) =
      nullptr;
  // Called before a command runs, with its name: an Error when it must not.
  void (*check)(const std::string& command) = nullptr;
  // What is printed of the message of a failure, and what follows when it was printed.
  std::string (*message)(const std::string& message) = nullptr;
  void (*end)(int exit_code) = nullptr;
  std::string when_out_of_memory{};  // what to do then: "; try fewer lanes"
};

// Runs a program with its arguments. Never throws: what fails is written to streams.err, and the
// result is the exit code: 0 done, 1 run failed, 2 wrong use or configuration, 3 plugin, 4 device.
[[nodiscard]] int run_program(const Program& program, int argc, const char* const* argv,
                              const Streams& streams) noexcept;

}  // namespace mneme::cli
