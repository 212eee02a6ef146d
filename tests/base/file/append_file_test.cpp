#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "host/base/file/file.hpp"
#include "host/base/file/write_file.hpp"
#include "tests/base/file_size_limit.hpp"
#include "tests/base/temporary_folder.hpp"

namespace mneme {
namespace {

using test::error_of;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

TEST(AppendFile, AddsToWhatIsThere) {
  const test::TemporaryFolder folder;
  const auto path = folder.write("log", "one\n");
  AppendFile file(path);
  file.append("two\n");
  EXPECT_EQ(read_file(path), "one\ntwo\n");
  AppendFile moved(std::move(file));
  moved.append("three\n");
  moved.sync();
  EXPECT_EQ(read_file(path), "one\ntwo\nthree\n");
}

TEST(AppendFile, TakesARecordBackThatDoesNotFit) {
  const test::TemporaryFolder folder;
  AppendFile file(folder / "log");
  file.append("0123456789");
  {
    const test::FileSizeLimit limit(15);
    EXPECT_THAT(error_of([&] { file.append("abcdefghij"); }),
                AllOf(StartsWith("1: "), HasSubstr((folder / "log").string()),
                      HasSubstr("cannot append"), HasSubstr("make room")));
  }
  EXPECT_EQ(read_file(folder / "log"), "0123456789");
  file.append("abc");
  EXPECT_EQ(read_file(folder / "log"), "0123456789abc");
}

TEST(AppendFile, NamesThePathThatCannotBeOpened) {
  const test::TemporaryFolder folder;
  EXPECT_THAT(error_of([&] { AppendFile file(folder / "absent/log"); }),
              AllOf(StartsWith("1: "), HasSubstr("absent/log"), HasSubstr("cannot open")));
  EXPECT_THAT(error_of([&] { AppendFile file(folder.path()); }), HasSubstr("cannot open"));
}

}  // namespace
}  // namespace mneme
