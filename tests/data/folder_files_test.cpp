#include "host/data/text/folder_files.hpp"

#include <sys/stat.h>

#include "tests/base/log_capture.hpp"
#include "tests/data/data_files.hpp"

namespace mneme::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(FolderFiles, KnowsNamesOfLeftovers) {
  for (const char* name : {".hidden", ".DS_Store", "._a.txt", ".a.txt.swp", ".#a.txt", "#a.txt#",
                           "a.txt~", "a.txt.bak", "a.orig", "a.rej", "a.save", "a.swp", "a.swo",
                           "~$a.docx~", "Thumbs.db", "desktop.ini"}) {
    EXPECT_TRUE(is_leftover_name(name)) << name;
  }
  for (const char* name : {"a.txt", "2", "#1", "#", "##", "~a", "bak", "a.bak.txt", "thumbs.txt"}) {
    EXPECT_FALSE(is_leftover_name(name)) << name;
  }
}

TEST(FolderFiles, ListsTheFilesByNameAndWhatIsLeftOut) {
  const TestFolder folder;
  for (const char* name : {"b.txt", "a.txt", "b.txt~", ".DS_Store"}) {
    static_cast<void>(folder.write(name, "x"));
  }
  std::filesystem::create_directory(folder.path() / "inner");
  std::filesystem::create_directory(folder.path() / ".git");
  std::filesystem::create_symlink("absent", folder.path() / "broken.txt");
  std::filesystem::create_symlink("user@host.1", folder.path() / ".#a.txt");  // Emacs' lock
  std::filesystem::create_symlink("a.txt", folder.path() / "link.txt");
  ASSERT_EQ(mkfifo((folder.path() / "pipe.txt").c_str(), 0600), 0);
  const FolderFiles listed = list_files(folder.path());
  EXPECT_THAT(listed.files, ElementsAre(folder.path() / "a.txt", folder.path() / "b.txt",
                                        folder.path() / "broken.txt", folder.path() / "link.txt"));
  EXPECT_THAT(listed.leftovers, ElementsAre(".#a.txt", ".DS_Store", "b.txt~"));
  EXPECT_THAT(listed.folders, ElementsAre("inner"));
  EXPECT_THAT(listed.others, ElementsAre("pipe.txt"));
}

TEST(FolderFiles, NamesWhatIsLeftOut) {
  test::LogCapture log;
  warn_of_left_out("--train: texts", {});
  EXPECT_THAT(log.text(), IsEmpty());
  warn_of_left_out("--train: texts", {.files = {},
                                      .leftovers = {"1~", "2~", "3~", "4~", "5~", "6~", "7~"},
                                      .folders = {"inner"},
                                      .others = {"pipe"}});
  EXPECT_THAT(
      log.text(),
      HasSubstr("--train: texts: hidden files and copies of editors are left out: 1~, 2~, 3~, "
                "4~, 5~ and 2 more; name a file itself to read it"));
  EXPECT_THAT(log.text(),
              HasSubstr("--train: texts: folders inside it are not searched: inner; name "
                        "each of them to read it"));
  EXPECT_THAT(log.text(),
              HasSubstr("--train: texts: pipes, sockets and devices are left out: pipe; copy "
                        "their contents into files to read them"));
}

TEST(FolderFiles, RefusesAFolderThatCannotBeRead) {
  expect_error(ErrorKind::kRun, {"absent", "cannot be read"},
               [] { static_cast<void>(list_files("/absent")); });
}

}  // namespace
}  // namespace mneme::data
