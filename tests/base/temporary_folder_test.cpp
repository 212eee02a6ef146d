#include "tests/base/temporary_folder.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <stdexcept>

#include "host/base/file/file.hpp"
#include "tests/base/file_size_limit.hpp"

namespace mneme::test {
namespace {

TEST(TemporaryFolder, WritesFilesWithTheirFolders) {
  const TemporaryFolder folder;
  EXPECT_EQ(folder.write("a/b/file", "text"), folder / "a/b/file");
  EXPECT_EQ(read_file(folder / "a/b/file"), "text");
  folder.write("a/b/file", "");
  EXPECT_EQ(read_file(folder / "a/b/file"), "");
}

TEST(TemporaryFolder, ThrowsWhereAFileCannotBeWritten) {
  const TemporaryFolder folder;
  folder.write("file", "text");
  EXPECT_THROW(folder.write("file/below", ""), std::filesystem::filesystem_error);
  std::filesystem::create_directory(folder / "sub");
  EXPECT_THROW(folder.write("sub", ""), std::runtime_error);
  const FileSizeLimit full(2);
  EXPECT_THROW(folder.write("long", "text"), std::runtime_error);
}

}  // namespace
}  // namespace mneme::test
