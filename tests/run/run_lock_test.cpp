#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "host/base/file/file.hpp"
#include "host/run/record/metrics.hpp"
#include "host/run/run_folder.hpp"
#include "tests/base/temporary_folder.hpp"

namespace mneme::train {
namespace {

using test::error_of;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

TEST(RunLock, NamesTheProcessThatHoldsIt) {
  const test::TemporaryFolder folder;
  {
    const run::RunLock lock(folder.path());
    EXPECT_THAT(error_of([&] { run::RunLock second(folder.path()); }),
                AllOf(StartsWith("2: "), HasSubstr(folder.path().string()), HasSubstr("in use"),
                      HasSubstr(str("process ", ::getpid(), " on ", run::host_name()))));
  }
  const run::RunLock again(folder.path());
}

TEST(RunLock, EndsWithItsProcess) {
  const test::TemporaryFolder folder;
  const pid_t child = ::fork();
  if (child == 0) {
    const run::RunLock lock(folder.path());
    ::_exit(0);  // as a killed process: no destructor runs
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(read_file(folder / "lock"), str(child, ' ', run::host_name(), '\n'));
  const run::RunLock lock(folder.path());
  EXPECT_EQ(read_file(folder / "lock"), str(::getpid(), ' ', run::host_name(), '\n'));
}

TEST(RunLock, NamesAFolderThatCannotBeLocked) {
  const test::TemporaryFolder folder;
  EXPECT_THAT(error_of([&] { run::RunLock lock(folder / "absent"); }),
              AllOf(StartsWith("1: "), HasSubstr("absent"), HasSubstr("cannot be locked")));
  std::filesystem::create_directory(folder / "lock");
  EXPECT_THAT(error_of([&] { run::RunLock lock(folder.path()); }), HasSubstr("cannot be locked"));
}

}  // namespace
}  // namespace mneme::train
