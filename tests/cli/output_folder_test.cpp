// Whether a folder that an option names could be written: asked before the work.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "host/cli/arguments.hpp"
#include "tests/base/ordinary_user.hpp"
#include "tests/base/temporary_folder.hpp"

namespace mneme::test {
namespace {

namespace fs = std::filesystem;
using cli::check_new_folder;
using cli::check_output_folder;

constexpr fs::perms kOnlyRead =
    fs::perms::all & ~(fs::perms::owner_write | fs::perms::group_write | fs::perms::others_write);

// "closed", in which only "closed/mine" can be written; and what an ordinary user is told.
class OutputFolders : public ::testing::Test {
 protected:
  OutputFolders() {
    fs::create_directories(mine_);
    fs::permissions(folder_.path(), fs::perms::all);
    fs::permissions(mine_, fs::perms::all);
    fs::permissions(closed_, kOnlyRead);
  }
  ~OutputFolders() override { fs::permissions(closed_, fs::perms::all); }

  template <typename Check>
  static std::string told(const Check& check, const fs::path& path) {
    const OrdinaryUser user;
    return error_of([&] { check("--out", path); });
  }

  const TemporaryFolder folder_;
  const fs::path closed_ = folder_ / "closed";
  const fs::path mine_ = closed_ / "mine";
  const std::string denied_ = "got the folder " + closed_.string() + ": Permission denied";
};

TEST_F(OutputFolders, ThatAreThereAreAskedThemselves) {
  EXPECT_EQ(told(check_output_folder, mine_), "no error");
  EXPECT_EQ(told(check_output_folder, mine_ / "new"), "no error");
  EXPECT_EQ(told(check_output_folder, closed_),
            "2: --out " + closed_.string() +
                ": cannot be written: expected a folder in which files can be made, " + denied_);
  EXPECT_EQ(told(check_output_folder, closed_ / "new"),
            "2: --out " + (closed_ / "new").string() +
                ": cannot be made: expected a folder that is there or can be made, " + denied_);
}

TEST_F(OutputFolders, ThatAreRenamedNeedTheFolderAbove) {
  EXPECT_EQ(told(check_new_folder, mine_ / "new"), "no error");
  EXPECT_EQ(told(check_new_folder, mine_),
            "2: --out " + mine_.string() +
                ": cannot be made: expected a folder that is there or can be made, " + denied_);
}

TEST_F(OutputFolders, AreNoFilesAndNoLinksToNothing) {
  fs::create_symlink("nowhere", mine_ / "link");
  fs::create_symlink(mine_, mine_ / "self");
  folder_.write("closed/mine/file", "");
  EXPECT_THAT(told(check_output_folder, mine_ / "link"),
              ::testing::EndsWith("got a link that leads nowhere"));
  EXPECT_THAT(told(check_output_folder, mine_ / "file"), ::testing::EndsWith("got a file"));
  EXPECT_EQ(told(check_output_folder, mine_ / "self"), "no error");
}

}  // namespace
}  // namespace mneme::test
