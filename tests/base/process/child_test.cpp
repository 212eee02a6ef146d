#include "host/base/process/child.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <thread>

#include "host/base/error.hpp"
#include "tests/base/descriptor_limit.hpp"
#include "tests/base/sanitized.hpp"
#include "tests/base/temporary_folder.hpp"

namespace mneme {
namespace {

using test::DescriptorLimit;
using ::testing::HasSubstr;

ChildResult shell(const std::string& command, double seconds = 0.0) {
  return run_child({.launch = {.program = "/bin/sh", .arguments = {"-c", command}},
                    .limits = {.seconds = seconds}});
}

// Whether a process of this number runs; a zombie does not.
bool is_running(pid_t process) {
  std::ifstream status("/proc/" + std::to_string(process) + "/stat");
  std::string number, name, state;
  return static_cast<bool>(status >> number >> name >> state) && state != "Z" && state != "X";
}

TEST(Child, GivesOutputAndExitCode) {
  const ChildResult result = shell("echo text; echo problem >&2; exit 7");
  EXPECT_EQ(result.exit_code, 7);
  EXPECT_EQ(result.signal, 0);
  EXPECT_EQ(result.out, "text\n");
  EXPECT_EQ(result.err, "problem\n");
  EXPECT_FALSE(result.is_timed_out);
}

TEST(Child, GivesTheSignalThatEndedIt) {
  const ChildResult result = shell("kill -SEGV $$");
  EXPECT_EQ(result.signal, SIGSEGV);
  EXPECT_EQ(result.exit_code, -1);
  EXPECT_EQ(signal_text(result.signal), "signal 11 (SIGSEGV)");
}

// The group is killed: also what the program started, though it holds the pipes open.
TEST(Child, IsKilledWithAllItStartedWhenTheTimeIsOver) {
  const ChildResult result = shell("sleep 60 & echo $!; wait", 0.3);
  EXPECT_TRUE(result.is_timed_out);
  EXPECT_EQ(result.signal, SIGKILL);
  EXPECT_GE(result.seconds, 0.3);
  EXPECT_LT(result.seconds, 30.0);
  const auto sleeper = static_cast<pid_t>(std::stol(result.out));
  for (int i = 0; i < 100 && is_running(sleeper); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  EXPECT_FALSE(is_running(sleeper));
}

TEST(Child, DoesNotWaitForWhatItLeavesBehind) {
  const ChildResult result = shell("sleep 60 & echo done", 50.0);
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.out, "done\n");
  EXPECT_LT(result.seconds, 30.0);
}

TEST(Child, IsKilledWhenCancelled) {
  int asked = 0;
  const ChildResult result =
      run_child({.launch = {.program = "/bin/sh", .arguments = {"-c", "sleep 60"}},
                 .limits = {.is_cancelled = [&] { return ++asked > 1; }}});
  EXPECT_TRUE(result.is_cancelled);
  EXPECT_EQ(result.signal, SIGKILL);
}

TEST(Child, KeepsTheEndOfLongOutput) {
  const ChildResult result = shell("yes line | head -c 1000000; echo the end");
  EXPECT_EQ(result.out.size(), 65536U);
  EXPECT_TRUE(result.out.ends_with("the end\n"));
}

TEST(Child, ReplacesEntriesOfTheEnvironment) {
  ::setenv("MNEME_TEST_CHILD", "old", 1);
  const ChildResult result = run_child({.launch = {.program = "/bin/sh",
                                                   .arguments = {"-c", "echo $MNEME_TEST_CHILD"},
                                                   .environment = {"MNEME_TEST_CHILD=new"}}});
  ::unsetenv("MNEME_TEST_CHILD");
  EXPECT_EQ(result.out, "new\n");
}

TEST(Child, NeedsAPipeForItsOutput) {
  if (test::is_address_sanitized()) GTEST_SKIP() << "the sanitizers need descriptors themselves";
  const DescriptorLimit none_left(3);
  EXPECT_THAT(test::error_of([] { static_cast<void>(shell("true")); }),
              HasSubstr("1: /bin/sh: no pipe for its output: Too many open files; close other "
                        "programs, or raise the limit of open files (ulimit -n)"));
}

// A program that never stops printing is ended when its time is over.
TEST(Child, IsKilledThoughItKeepsPrinting) {
  const ChildResult result = shell("exec yes", 0.3);
  EXPECT_TRUE(result.is_timed_out);
  EXPECT_EQ(result.out.size(), 65536U);
}

TEST(Child, ThatCannotBeStartedIsNamed) {
  try {
    static_cast<void>(run_child({.launch = {.program = "/nowhere/program"}}));
    FAIL() << "started";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kRun);
    EXPECT_THAT(error.what(), HasSubstr("/nowhere/program: cannot be started"));
  }
}

}  // namespace
}  // namespace mneme
