// What a terminal is shown: the width of lines, colours, silence.
#include <filesystem>
#include <sstream>

#include "host/base/text.hpp"
#include "tests/cli/program.hpp"

namespace mneme::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

namespace fs = std::filesystem;

class Terminal : public CliTest {
 protected:
  static ProgramResult run_wide(const std::vector<std::string>& arguments, std::size_t columns) {
    return run_mneme(arguments, {.environment = {str("COLUMNS=", columns)}});
  }
  // Expects lines of at most so many columns, but for those that a single word makes longer: a path
  // that does not fit beside the labels of doctor, which take kLabels columns.
  static constexpr std::size_t kLabels = 27;
  static void expect_fits(const std::string& text, std::size_t columns) {
    EXPECT_GT(text.size(), columns);
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      const std::size_t indent = std::min(line.find_first_not_of(' '), line.size());
      if (line.find(' ', indent) == std::string::npos) continue;
      if (text_width(line.substr(line.rfind(' ') + 1)) + kLabels > columns) continue;
      EXPECT_LE(text_width(line), columns) << line;
    }
  }
};

TEST_F(Terminal, HelpFitsItsWidthButForExamples) {
  for (const char* command : {"train", "compare", "generate"}) {
    const std::string help = run_wide({command, "--help"}, 60).out;
    expect_fits(help.substr(0, help.find("\nExamples:")), 60);
  }
}

TEST_F(Terminal, TextFitsItsWidth) {
  const std::string flawed = (fs::path(MNEME_BINARY_DIR) / "tests/cli/flawed").string();
  for (const std::vector<std::string>& command :
       std::vector<std::vector<std::string>>{{"config", "keys"},
                                             {"abi", "ops"},
                                             {"doctor", "--plugins", flawed},
                                             {"plugins", "list", "--plugins", flawed},
                                             {"plugins", "describe", flawed + "/hook_error.so"}}) {
    SCOPED_TRACE(join(command, " "));
    expect_fits(run_wide(command, 64).out, 64);
  }
}

TEST_F(Terminal, TablesFitTheirWidth) {
  const std::string run = file("run");
  expect_done(run_mneme({"train", experiment(tiny()), "--run", run, "--quiet"}));
  const std::string memory = folder_.write("a_memory_with_a_long_name.toml", "[memory]\n").string();
  for (const std::vector<std::string>& command : std::vector<std::vector<std::string>>{
           {"eval", run, "--memory", memory, "--breakdown", "--quiet"},
           {"inspect", run + "/checkpoints/step_00000006.safetensors"},
           {"inspect", run},
           {"train", experiment(tiny()), "--dry-run"},
           {"compare", experiment(tiny()), "--memory", memory, "--run", file("comparison"),
            "--quiet"}}) {
    SCOPED_TRACE(command.front());
    const ProgramResult result = run_wide(command, 56);
    expect_done(result);
    expect_fits(result.out, 56);
  }
}

TEST_F(Terminal, NoColoursGoIntoPipes) {
  const ProgramResult refused = run_mneme({"train", file("absent.toml")});
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.err, Not(HasSubstr("\x1b")));
  const ProgramResult trained = run_mneme({"train", experiment(tiny()), "--run", file("run")});
  expect_done(trained);
  EXPECT_THAT(trained.out + trained.err, Not(HasSubstr("\x1b")));
  EXPECT_THAT(trained.err, Not(HasSubstr("\r")));
}

// On a terminal of its own, which util-linux's script gives it.
TEST_F(Terminal, ColoursAreOnTerminalsAndObeyNoColor) {
  if (run_shell("command -v script").exit_code != 0) GTEST_SKIP() << "no script(1)";
  const std::string program = (fs::path(MNEME_BINARY_DIR) / "bin/mneme").string();
  const auto on_terminal = [&](const std::string& environment) {
    return run_shell(environment + " script -qec " +
                     shell_word(shell_word(program) + " train " + shell_word(file("absent.toml"))) +
                     " /dev/null < /dev/null")
        .out;
  };
  EXPECT_THAT(on_terminal("NO_COLOR="), HasSubstr("mneme: \x1b[31merror: \x1b[0m"));
  EXPECT_THAT(on_terminal("NO_COLOR=1"), HasSubstr("mneme: error: "));
  EXPECT_THAT(on_terminal("NO_COLOR=1"), Not(HasSubstr("\x1b")));
}

// Ctrl-C ends the reader of the pipe as well.
TEST_F(Terminal, ShowsThatCtrlCStoppedACommandWhoseReaderItEnded) {
  if (run_shell("command -v script").exit_code != 0) GTEST_SKIP() << "no script(1)";
  const std::string program = (fs::path(MNEME_BINARY_DIR) / "bin/mneme").string();
  const std::string none = folder_.write("none.toml", "[memory]\n").string();
  std::string command = "trap : INT; " + shell_word(program);
  for (const std::string& word :
       {std::string("compare"), experiment(tiny()), std::string("--memory"), none,
        std::string("--run"), file("c"), std::string("--threads"), std::string("1"),
        std::string("--set"), std::string("train.steps=1000000")}) {
    command += ' ' + shell_word(word);
  }
  // script(1) may end without the last output of a command that has ended.
  const ProgramResult result =
      run_shell("(until [ -e " + shell_word(file("c/comparison.json")) +
                " ]; do sleep 0.05; done; printf '\\003') | script -qec " +
                shell_word(command + " 2>&1 | cat; sleep 0.5") + " /dev/null");
  EXPECT_THAT(result.out, HasSubstr("mneme: stopped by SIGINT: 0 of 1 runs are done"));
}

TEST_F(Terminal, QuietCommandsShowResultsAlone) {
  const std::string run = file("run");
  folder_.write("text.txt", "a text of a few words that is long enough to be prepared\n");
  for (const std::vector<std::string>& command : std::vector<std::vector<std::string>>{
           {"train", experiment(tiny()), "--run", run},
           {"eval", run},
           {"generate", run, "--prompt-ids", "1,2", "--tokens", "3"},
           {"analyze", "distance", run, "--out", file("analysis"), "--distance", "10"},
           {"data", "prepare", "--train", file("text.txt"), "--out", file("prepared")},
           {"compare", experiment(tiny()), "--memory",
            folder_.write("none.toml", "[memory]\n").string(), "--run", file("comparison")}}) {
    SCOPED_TRACE(join(command, " "));
    std::vector<std::string> quiet = command;
    quiet.emplace_back("--quiet");
    const ProgramResult result = run_mneme(quiet);
    expect_done(result);
    EXPECT_EQ(result.err, "");
    EXPECT_NE(result.out, "");
  }
}

}  // namespace
}  // namespace mneme::test
