#include "host/base/process/child_process.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>

#include "host/base/text.hpp"
#include "tests/base/descriptor_limit.hpp"
#include "tests/base/sanitized.hpp"
#include "tests/base/temporary_folder.hpp"

namespace mneme {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Launch command_of(const std::string& script, const std::vector<std::string>& environment = {}) {
  return {.program = "/bin/sh", .arguments = {"-c", script}, .environment = environment};
}

// Everything that it prints until its end.
std::vector<std::string> lines_until_end(ChildProcess& child) {
  std::vector<std::string> all;
  for (int i = 0; i < 1000; ++i) {
    ChildProcess::wait_for_any({&child}, 20);
    for (std::string& line : child.read_lines()) all.push_back(std::move(line));
    if (child.poll_end()) break;
  }
  for (std::string& line : child.read_lines()) all.push_back(std::move(line));
  return all;
}

TEST(ChildProcess, ReadsStderrLineByLine) {
  ChildProcess child(command_of("echo out; echo one >&2; printf 'two\\nthr' >&2; printf ee >&2"));
  EXPECT_THAT(lines_until_end(child), ElementsAre("one", "two", "three"));
  ASSERT_TRUE(child.poll_end().has_value());
  EXPECT_EQ(child.poll_end()->text(), "exit status 0");
}

TEST(ChildProcess, DoesNotWaitForLines) {
  ChildProcess child(command_of("sleep 20"));
  const auto start = std::chrono::steady_clock::now();
  EXPECT_TRUE(child.read_lines().empty());
  EXPECT_FALSE(child.poll_end().has_value());
  ChildProcess::wait_for_any({&child}, 50);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
}

TEST(ChildProcess, TellsHowItEnded) {
  ChildProcess failed(command_of("exit 3"));
  static_cast<void>(lines_until_end(failed));
  EXPECT_EQ(failed.poll_end()->exit_code, 3);
  EXPECT_EQ(failed.poll_end()->text(), "exit status 3");
  ChildProcess killed(command_of("sleep 20"));
  killed.send(SIGKILL);
  static_cast<void>(lines_until_end(killed));
  EXPECT_EQ(killed.poll_end()->signal, SIGKILL);
  EXPECT_EQ(killed.poll_end()->text(), "signal 9 (SIGKILL)");
}

TEST(ChildProcess, IsKilledWithItsObject) {
  pid_t id = -1;
  {
    ChildProcess child(command_of("echo $$ >&2; exec sleep 20"));
    std::vector<std::string> lines;
    while (lines.empty()) {
      ChildProcess::wait_for_any({&child}, 1000);
      lines = child.read_lines();
    }
    id = static_cast<pid_t>(std::stol(lines.front()));
    EXPECT_EQ(::kill(id, 0), 0);
  }
  EXPECT_NE(::kill(id, 0), 0);
}

// As a starter may have left it: the system then keeps no status of children.
TEST(ChildProcess, EndsThoughNobodyKnowsHow) {
  std::signal(SIGCHLD, SIG_IGN);
  ChildProcess child(command_of("exit 3"));
  static_cast<void>(lines_until_end(child));
  std::signal(SIGCHLD, SIG_DFL);
  ASSERT_TRUE(child.poll_end().has_value());
  EXPECT_EQ(child.poll_end()->text(), "an end that nobody knows");
}

// What a child prints after its parent's end must not end it before it has saved.
TEST(ChildProcess, OutlivesItsReader) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::setenv(kParentVariable, str(::getppid()).c_str(), 1);
    stop_with_parent();
    std::array<int, 2> ends{-1, -1};
    if (::pipe(ends.data()) != 0) ::_exit(2);
    ::close(ends[0]);
    ::_exit(::write(ends[1], "x", 1) < 0 && errno == EPIPE ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(ChildProcess, NeedsAPipeForItsOutput) {
  if (test::is_address_sanitized()) GTEST_SKIP() << "the sanitizers need descriptors themselves";
  const test::DescriptorLimit none_left(3);
  EXPECT_THAT(test::error_of([] { const ChildProcess child(command_of("true")); }),
              HasSubstr("1: /bin/sh: no pipe for its output: Too many open files"));
}

TEST(ChildProcess, KnowsItsParentAndVariables) {
  ChildProcess child(command_of("echo $MNEME_PARENT $GREETING >&2", {"GREETING=hello"}));
  EXPECT_THAT(lines_until_end(child), ElementsAre(str(::getpid(), " hello")));
}

TEST(ChildProcess, NamesAProgramThatCannotBeStarted) {
  EXPECT_THAT(test::error_of([] { const ChildProcess child({.program = "/no/such/program"}); }),
              HasSubstr("1: /no/such/program: cannot be started: No such file"));
}

}  // namespace
}  // namespace mneme
