// Who draws figures, played by scripts in a PATH of the test's own.
#include "host/figure/pictures.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>  // setenv

#include <cstdlib>
#include <filesystem>
#include <string>

#include "host/base/error.hpp"
#include "host/base/file/file.hpp"
#include "tests/base/temporary_folder.hpp"

namespace mneme::figure {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class Pictures : public ::testing::Test {
 protected:
  Pictures() { ::setenv("PATH", (root_ / "bin").c_str(), 1); }
  ~Pictures() override { ::setenv("PATH", before_.c_str(), 1); }

  void install(const std::string& name, const std::string& script) const {
    fs::create_directories(root_ / "bin");
    const fs::path file = root_ / "bin" / name;
    write_file_atomic(file, "#!/bin/sh\n" + script);
    fs::permissions(file, fs::perms::owner_all);
  }
  [[nodiscard]] std::vector<fs::path> specifications() const {
    std::vector<fs::path> out;
    for (const char* name : {"a.vl.json", "b of x.vl.json"}) {
      out.push_back(root_ / name);
      write_file_atomic(out.back(), "{}");
    }
    return out;
  }

  test::TemporaryFolder root_;

 private:
  std::string before_ = std::getenv("PATH");
};

TEST_F(Pictures, NamesTheCommandThatInstallsTheProgram) {
  try {
    static_cast<void>(find_drawer());
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    EXPECT_THAT(error.what(), HasSubstr("vl-convert, which draws pictures, is not installed"));
    EXPECT_THAT(error.what(), HasSubstr("python3 -m pip install vl-convert-python"));
  }
}

TEST_F(Pictures, TheProgramDrawsEachFile) {
  install("vl-convert", "[ $1 = --version ] || echo \"$1 $2 $4\" > \"$5\"\n");
  ASSERT_EQ(find_drawer(), Drawer::kProgram);
  const auto drawn = draw_pictures(Drawer::kProgram, specifications(), "pdf");
  ASSERT_EQ(drawn.size(), 2u);
  EXPECT_EQ(drawn[1], root_ / "b of x.pdf");
  EXPECT_EQ(read_file(drawn[1]), "vl2pdf --input --output\n");
}

TEST_F(Pictures, ThePackageDrawsAllFilesAtOnce) {
  install("python3", "[ $# = 2 ] && exit 0\necho \"$3\" > \"$5\"; echo \"$3\" > \"$7\"\n");
  ASSERT_EQ(find_drawer(), Drawer::kPython);
  const auto drawn = draw_pictures(Drawer::kPython, specifications(), "svg");
  EXPECT_EQ(read_file(drawn[0]), "svg\n");
  EXPECT_EQ(read_file(drawn[1]), "svg\n");
}

TEST_F(Pictures, TellsWhatTheProgramSaid) {
  install("vl-convert", "[ $1 = --version ] && exit 0\necho no such font >&2; exit 3\n");
  try {
    static_cast<void>(draw_pictures(Drawer::kProgram, specifications(), "svg"));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kRun);
    EXPECT_THAT(error.what(), HasSubstr("a.vl.json"));
    EXPECT_THAT(error.what(), HasSubstr("exit status 3: no such font"));
  }
}

}  // namespace
}  // namespace mneme::figure
