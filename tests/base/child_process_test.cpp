#include "host/base/child_process.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>

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
    const ChildProcess child(command_of("exec sleep 20"));
    id = child.id();
    EXPECT_EQ(::kill(id, 0), 0);
  }
  EXPECT_NE(::kill(id, 0), 0);
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
