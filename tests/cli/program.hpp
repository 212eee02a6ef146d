// Runs mneme, as a shell would with its output in pipes.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/base/temporary_folder.hpp"

namespace mneme::test {

struct Wording;  // tests/base/wordings.hpp

struct ProgramResult {
  int exit_code = -1;  // -1 when a signal ended it
  int signal = 0;
  std::string out;
  std::string err;
};

struct ProgramOptions {
  std::filesystem::path folder = {};          // where it runs; "" = here
  std::vector<std::string> environment = {};  // "NAME=value", added to this process's
  std::filesystem::path out = {};             // stdout goes to this file; "" = to the result
  std::int64_t address_space = 0;             // limit in bytes (RLIMIT_AS); 0 = none
  std::int64_t file_size = 0;  // limit in bytes (RLIMIT_FSIZE), as on a full disk; 0 = none
  bool is_out_unread = false;  // stdout is a pipe without a reader
  bool is_err_unread = false;
  // Sends this signal as soon as stderr holds `signal_after`; 0 = none.
  int signal = 0;
  std::string signal_after = {};
  int second_signal = 0;  // likewise, after the first; "" = at once
  std::string second_signal_after = {};
  bool is_new_program = false;  // the built program and no fork, see program_main
  bool is_refused = false;      // the command ends before it would start its own file again
};

// The program's main in this process, or nullptr. Tests that link mneme_program_here have it: where
// the options ask for nothing that only a new program has, they fork themselves and call it, which
// spares each run the quarter of a second that loading LibTorch takes. Such a test must not run
// LibTorch's backward pass itself, as a fork cannot run it again.
using ProgramMain = int (*)(int argc, char** argv);
extern ProgramMain program_main;
// Set in such a fork. A program of tests that finds it is started in mneme's place, and ends.
inline constexpr const char* kForkVariable = "MNEME_TEST_FORK";

// Runs mneme with these arguments and waits for its end.
ProgramResult run_mneme(const std::vector<std::string>& arguments,
                        const ProgramOptions& options = {});

// Runs a command line of the shell; `out` has its stderr too.
ProgramResult run_shell(const std::string& command);

// The words of a command as a shell takes them.
std::vector<std::string> shell_words(const std::string& text);

// Expects a refusal: the exit code, no crash, no "unexpected failure", every text on stderr.
void expect_refusal(const ProgramResult& result, int exit_code,
                    const std::vector<std::string>& texts);
// Expects exit code 0, with stderr in the message when not.
void expect_done(const ProgramResult& result);

// A folder with experiments of a few steps.
class CliTest : public ::testing::Test {
 protected:
  // A tiny motif experiment as TOML; `memory` is the text of [memory].
  static std::string tiny(const std::string& memory = "[memory]\n", const std::string& more = "");
  // The same on other data: the lines of [data].
  static std::string tiny_on(const std::string& data, const std::string& memory = "[memory]\n");
  // Writes it and returns the path.
  std::string experiment(const std::string& text) const {
    return folder_.write("experiment.toml", text).string();
  }
  std::string file(const std::string& name) const { return (folder_ / name).string(); }
  // The text with {name} replaced by the path of that file of the folder.
  std::string with_files(std::string text) const;
  // Expects that every row "arguments => part & part" (tests/base/wordings.hpp) is
  // refused with these parts in its message. `before` stands before each row's arguments. Both
  // sides may hold {name}.
  void expect_refusals(int exit_code, const std::string& before,
                       const std::vector<Wording>& rows) const;

  TemporaryFolder folder_;
};

// [memory] with one tier of a plugin in `folder`.
std::string memory_with(const std::string& plugin, const std::filesystem::path& folder,
                        const std::string& options = "");

}  // namespace mneme::test
